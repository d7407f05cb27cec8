/// Data as the reference has it: nested dictionaries, nothing shared with the rooms under test. Without
/// priorities.
///
/// Also any JSON that the server says: then an object may be empty and keys may be anything.
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

// MARK: - Reading

struct NoJSON: Error {
    var offset: Int
}

extension Value {
    init(json bytes: [UInt8]) throws(NoJSON) {
        var reader = ValueReader(bytes: bytes)
        self = try reader.read()
        guard reader.offset == bytes.count else { throw NoJSON(offset: reader.offset) }
    }
}

/// Reads the JSON of our server: no white space, and of escapes only those it writes for what the simulation
/// stores.
private struct ValueReader {
    let bytes: [UInt8]
    var offset = 0

    private var next: UInt8? { offset < bytes.count ? bytes[offset] : nil }

    private mutating func take(_ text: StaticString) throws(NoJSON) {
        for byte in "\(text)".utf8 {
            guard next == byte else { throw NoJSON(offset: offset) }
            offset += 1
        }
    }

    mutating func read() throws(NoJSON) -> Value {
        switch next {
        case UInt8(ascii: "n"):
            try take("null")
            return .nothing
        case UInt8(ascii: "t"):
            try take("true")
            return .boolean(true)
        case UInt8(ascii: "f"):
            try take("false")
            return .boolean(false)
        case UInt8(ascii: "\""): return .string(try readString())
        case UInt8(ascii: "{"): return try readObject()
        case UInt8(ascii: "["): return try readArray()
        default: return try readNumber()
        }
    }

    private mutating func readNumber() throws(NoJSON) -> Value {
        let start = offset
        while let byte = next, "+-.eE0123456789".utf8.contains(byte) { offset += 1 }
        guard let number = Double(String(decoding: bytes[start..<offset], as: UTF8.self)) else {
            throw NoJSON(offset: start)
        }
        return .number(number)
    }

    private mutating func readString() throws(NoJSON) -> String {
        try take("\"")
        var text: [UInt8] = []
        while let byte = next, byte != UInt8(ascii: "\"") {
            offset += 1
            guard byte == UInt8(ascii: "\\") else {
                text.append(byte)
                continue
            }
            guard let escaped = next, "\"\\/".utf8.contains(escaped) else { throw NoJSON(offset: offset) }
            text.append(escaped)
            offset += 1
        }
        try take("\"")
        return String(decoding: text, as: UTF8.self)
    }

    /// Its members by their places.
    private mutating func readArray() throws(NoJSON) -> Value {
        try take("[")
        var children: [String: Value] = [:]
        while next != UInt8(ascii: "]") {
            if !children.isEmpty { try take(",") }
            children["\(children.count)"] = try read()
        }
        try take("]")
        return .object(children)
    }

    private mutating func readObject() throws(NoJSON) -> Value {
        try take("{")
        var children: [String: Value] = [:]
        while next != UInt8(ascii: "}") {
            if !children.isEmpty { try take(",") }
            let key = try readString()
            try take(":")
            children[key] = try read()
        }
        try take("}")
        return .object(children)
    }
}

// MARK: - What a client writes

/// A value with server values in it.
indirect enum Draft {
    case plain(Value)
    case increment(Int)
    case timestamp
    case object([(key: String, draft: Draft)])

    var json: String {
        switch self {
        case .plain(let value): value.json
        case .increment(let by): "{\".sv\":{\"increment\":\(by)}}"
        case .timestamp: "{\".sv\":\"timestamp\"}"
        case .object(let members):
            "{" + members.map { "\"\($0.key)\":\($0.draft.json)" }.joined(separator: ",") + "}"
        }
    }

    /// What is stored, where `current` is what it replaces.
    func resolved(_ current: Value, time: Int64) -> Value {
        switch self {
        case .plain(let value): value
        case .increment(let by): .number((current.number ?? 0) + Double(by))
        case .timestamp: .number(Double(time))
        case .object(let members):
            .object(
                Dictionary(
                    uniqueKeysWithValues: members.map {
                        ($0.key, $0.draft.resolved(current[$0.key], time: time))
                    }))
        }
    }
}

// MARK: - Queries

/// What a filtered listen asks for.
struct ReferenceQuery {
    enum Order: Equatable { case key, child(String) }

    var order: Order
    var isFromStart: Bool
    var limit: Int

    var json: String {
        let index =
            switch order {
            case .key: ".key"
            case .child(let name): name
            }
        return "{\"i\":\"\(index)\",\"l\":\(limit),\"vf\":\"\(isFromStart ? "l" : "r")\"}"
    }

    /// The children in the window.
    func filter(_ value: Value) -> Value {
        guard case .object(let children) = value else { return .nothing }
        let sorted = children.sorted { left, right in
            let (one, two) = (rank(left.value), rank(right.value))
            return one != two ? one < two : left.key < right.key
        }
        let kept = isFromStart ? sorted.prefix(limit) : sorted.suffix(limit)
        return kept.isEmpty
            ? .nothing : .object(Dictionary(uniqueKeysWithValues: kept.map { ($0.key, $0.value) }))
    }

    /// Where a child stands: nothing, false, true, numbers, texts, objects (data model: the order of values).
    private func rank(_ child: Value) -> Rank {
        guard case .child(let name) = order else { return Rank(kind: 0) }
        return switch child[name] {
        case .nothing: Rank(kind: 0)
        case .boolean(let value): Rank(kind: value ? 2 : 1)
        case .number(let number): Rank(kind: 3, number: number)
        case .string(let text): Rank(kind: 4, text: text)
        case .object: Rank(kind: 5)
        }
    }

    private struct Rank: Comparable {
        var kind: Int
        var number = 0.0
        var text = ""

        static func < (left: Rank, right: Rank) -> Bool {
            if left.kind != right.kind { return left.kind < right.kind }
            return left.number != right.number ? left.number < right.number : left.text < right.text
        }
    }
}
