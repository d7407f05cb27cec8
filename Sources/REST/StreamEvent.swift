import PandoBytes
import PandoTree

//  event: put\n                                exactly two lines and an empty one: common parsers read
//  data: {"path":"/x","data":…}\n              pairs of lines, or split at empty ones (rest §8.1)
//  \n

/// One Server-Sent Event (rest §8). Paths are relative to the stream's root.
package enum StreamEvent: Equatable, Sendable {
    /// The location now holds this, whole.
    case put(Path, Node)
    /// Several children of the location now hold these.
    case patch(Path, [Entry])
    case keepAlive
    /// The rules no longer permit the read, or there is too much data; the stream ends. Nil for no reason.
    case cancel(Text?)
    /// An operation as JSON on one line, for a client of `/.settings/profile.json` (§10).
    case log([UInt8])
    /// The credential has expired; the stream ends.
    case authRevoked

    package struct Entry: Equatable, Sendable {
        package var key: Key
        package var node: Node

        package init(key: Key, node: Node) {
            self.key = key
            self.node = node
        }
    }

    /// The events of one multi-path write (§8.2): one `patch` of the deepest node above all entries. If that
    /// needed names with slashes, which simple clients cannot split, a `put` for each entry.
    ///
    /// The changes of a query window are a `put` for each child, with the removed ones first.
    /// - Parameters:
    ///   - entries: Relative to `base`, none at or above another.
    ///   - base: Relative to the stream's root.
    package static func events(
        merging entries: [(path: Path, node: Node)], at base: Path, isQuery: Bool = false
    ) -> [StreamEvent] {
        let puts = entries.map { StreamEvent.put(base.appending($0.path.keys), $0.node) }
        if isQuery {
            let nodes = entries.map(\.node.isEmpty)
            return zip(puts, nodes).filter(\.1).map(\.0) + zip(puts, nodes).filter { !$0.1 }.map(\.0)
        }
        guard let common = patchDepth(of: entries.lazy.map(\.path)) else { return puts }
        return [
            .patch(
                base.appending(entries[0].path.keys[..<common]),
                entries.map { Entry(key: $0.path[common], node: $0.node) })
        ]
    }

    /// The number of keys that all paths have in common, where each has one more: then a multi-path write is
    /// one `patch` at that depth. Nil where it is a `put` for each path.
    /// - Complexity: O(paths × depth), at most: where paths differ in depth, it ends at the first that does.
    package static func patchDepth(of paths: some Collection<Path>) -> Int? {
        guard let first = paths.first?.keys else { return nil }
        // Without the last key, if there is one path.
        var common = paths.count == 1 ? max(0, first.count - 1) : first.count
        for path in paths {
            guard path.count <= common + 1 else { return nil }
            common = min(common, zip(first, path.keys).prefix { $0 == $1 }.count)
            guard path.count <= common + 1 else { return nil }
        }
        // All are as deep as the first: a shorter one has less in common.
        guard paths.allSatisfy({ $0.count == common + 1 }), paths.count > 1 || common == 0 else { return nil }
        return common
    }

    /// A printer of the event in pieces, for an initial value, which may be large.
    package func printer(_ form: JSONForm) -> ValuePrinter {
        var form = form
        form.isPretty = false
        form.isShallow = false
        switch self {
        case .put(let path, let node):
            return ValuePrinter(
                .node(node), form, prefix: Self.start("put", at: path), suffix: Array("}\n\n".utf8))
        case .patch(let path, let entries):
            let members = entries.map { ValuePrinter.Member(name: $0.key.text, node: $0.node) }
            return ValuePrinter(
                .members(members), form, prefix: Self.start("patch", at: path), suffix: Array("}\n\n".utf8))
        case .keepAlive: return Self.line("event: keep-alive\ndata: ", .node(.empty))
        case .log(let json):
            return ValuePrinter(
                .nothing, JSONForm(), prefix: Array("event: log\ndata: ".utf8) + json, suffix: [0x0A, 0x0A])
        case .cancel(let text):
            return Self.line("event: cancel\ndata: ", .node(text.map { .string($0) } ?? .empty))
        // Not JSON: the Python client compares this very text (§8.3).
        case .authRevoked:
            return Self.line("event: auth_revoked\ndata: credential is no longer valid", .nothing)
        }
    }

    private static func line(_ start: StaticString, _ root: ValuePrinter.Root) -> ValuePrinter {
        var prefix: [UInt8] = []
        prefix.append(start)
        return ValuePrinter(root, JSONForm(), prefix: prefix, suffix: Array("\n\n".utf8))
    }

    /// `event: put\ndata: {"path":"/x","data":`
    package static func start(_ name: StaticString, at path: Path) -> [UInt8] {
        var prefix: [UInt8] = []
        prefix.append("event: ")
        prefix.append(name)
        prefix.append("\ndata: {\"path\":")
        prefix.append(json: Text(path.description))
        prefix.append(",\"data\":")
        return prefix
    }
}

extension [UInt8] {
    /// Appends a whole event. The bytes are the same for every stream with this root and form, so it is
    /// enough to encode it once.
    package mutating func append(event: StreamEvent, _ form: JSONForm = JSONForm()) {
        var printer = event.printer(form)
        while let piece = printer.next() { self += piece }
    }
}
