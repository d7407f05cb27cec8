/// Data of the reference model: nested dictionaries, without code of the modules under test. Without
/// priorities.
///
/// Also any JSON that the server sends: then an object may be empty and keys may be anything.
indirect enum Value: Equatable {
    case nothing
    case boolean(Bool)
    case number(Double)
    case string(String)
    case object([String: Value])

    subscript(key: String) -> Value {
        if case .object(let children) = self { children[key] ?? .nothing } else { .nothing }
    }

    subscript(path: [String]) -> Value {
        path.reduce(self) { $0[$1] }
    }

    /// The tree after a put of `new` at the path. A leaf on the way gives way to data, not to nothing.
    func putting(_ new: Value, at path: ArraySlice<String>) -> Value {
        guard let key = path.first else { return new.pruned }
        var children: [String: Value] = [:]
        if case .object(let own) = self { children = own }
        let child = (children[key] ?? .nothing).putting(new, at: path.dropFirst())
        if child == .nothing {
            guard case .object = self else { return self }
            children[key] = nil
        } else {
            children[key] = child
        }
        return children.isEmpty ? .nothing : .object(children)
    }

    /// As a tree keeps it: no empty objects.
    var pruned: Value {
        guard case .object(let children) = self else { return self }
        let kept = children.mapValues(\.pruned).filter { $0.value != .nothing }
        return kept.isEmpty ? .nothing : .object(kept)
    }

    /// The same value, in the objects of another where they are equal: then comparing them takes no time.
    func sharing(_ other: Value) -> Value {
        if self == other { return other }
        guard case .object(let children) = self, case .object(let others) = other else { return self }
        return .object(
            Dictionary(
                uniqueKeysWithValues: children.map { key, child in
                    (key, child.sharing(others[key] ?? .nothing))
                }))
    }

    var number: Double? {
        if case .number(let number) = self { number } else { nil }
    }

    var text: String? {
        if case .string(let text) = self { text } else { nil }
    }

    /// Members in the order of their keys.
    var members: [(key: String, value: Value)] {
        if case .object(let children) = self { children.sorted { $0.key < $1.key } } else { [] }
    }

    var json: String {
        switch self {
        case .nothing: "null"
        case .boolean(let value): value ? "true" : "false"
        case .number(let value): Value.text(of: value)
        case .string(let text): "\"\(text)\""
        case .object: "{" + members.map { "\"\($0.key)\":\($0.value.json)" }.joined(separator: ",") + "}"
        }
    }

    static func text(of number: Double) -> String {
        Int64(exactly: number).map { "\($0)" } ?? "\(number)"
    }
}

/// As JSON: the log of a run prints values, and the order of a dictionary differs from run to run.
extension Value: CustomStringConvertible {
    var description: String { json }
}
