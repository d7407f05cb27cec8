import Foundation
import PandoBytes
import PandoEngine
import PandoHTTP
import PandoTree

/// Writes a tree to a running server through REST: in one atomic write where it fits, else in several, each
/// of them atomic.
///
/// The tree is complete before the first write: a file with an error at its end changes nothing. And nothing
/// is removed before the server has accepted the whole tree: what a file lacks is removed last.
struct OnlineImport {
    let client: ServerClient
    let namespace: String
    let path: Path
    let merges: Bool
    let replaces: Bool
    /// Called before the first of several writes; perhaps more than once.
    let noteParts: () -> Void
    /// Called after each of several writes, with the bytes of the tree that it wrote.
    let progress: (_ byteCount: Int) -> Void

    /// Bytes of one write: far below what a server accepts by default (`--max-write-bytes`), and a fraction
    /// of a second of its time. It becomes less where the server, or a proxy, accepts less.
    static let chunkByteCount = 4 << 20
    /// Names of children that are read at a time.
    private static let listedCount = 10_000

    private struct DataIsThere: Error {}

    /// Whether there is data where the import goes.
    /// - Throws: ``ServerClient/Failure``.
    func findsData() throws -> Bool {
        var value = ShallowValue()
        do {
            try client.get(target(path, "shallow=true")) { piece in
                value.append(piece)
                if !value.mayBeNull { throw DataIsThere() }
            }
            return false
        } catch is DataIsThere {
            return true
        }
    }

    /// - Returns: How many writes were needed; more than one were not atomic together.
    /// - Throws: ``ServerClient/Failure``; the writes before it stay.
    func run(_ node: Node) throws -> Int {
        if !merges, !Self.isParted(node) {
            var json: [UInt8] = []
            json.append(json: node)
            do {
                try client.send("PUT", target(path, "print=silent"), json)
                return 1
            } catch let error as ServerClient.Failure where error.isTooLarge && ChunkWriter.hasParts(node) {
                // In parts it is accepted.
            }
        }
        var writer = ChunkWriter(noteParts: noteParts) { body in
            try client.send("PATCH", target(path, "print=silent"), body)
            progress(body.count)
        }
        if !merges { noteParts() }
        // Parts of the root, however small it is: what is beside them stays, for now.
        try writer.addParts(of: node, at: Path.root)
        try writer.flush()
        // Everything was accepted.
        for (location, written) in writer.parted {
            // A child of the root replaces what was there (as in an update) even where it was written in
            // parts.
            guard replaces || merges && !location.isRoot else { continue }
            try removeOthers(than: written, at: location, &writer)
        }
        try writer.flush()
        return writer.count
    }

    /// Whether ``run(_:)`` will need several writes, whatever the server accepts.
    static func isParted(_ node: Node) -> Bool {
        !node.isLeaf && node.isHeavier(than: chunkByteCount)
    }

    // MARK: What was there before

    /// Removes the children, and the priority, that a location has on the server and not in the tree.
    /// - Parameter location: Below ``path``.
    private func removeOthers(
        than written: Node, at location: Path, _ writer: inout ChunkWriter
    ) throws {
        if written.priority == nil {
            try writer.add(.empty, at: location.appending(Path.priorityKey).wireText)
        }
        var last: Key?
        while true {
            let children = try list(path.appending(location.keys), behind: last).children
            try children.forEach { key, _ throws(any Error) in
                last = key
                if written[key].isEmpty { try writer.add(.empty, at: location.appending(key).wireText) }
                return true
            }
            guard children.count >= Self.listedCount else { return }
        }
    }

    /// The next children of a location, with any values.
    private func list(_ location: Path, behind key: Key?) throws -> Node {
        let start = key.map { "&startAfter=" + encodePercent($0.string.utf8) } ?? ""
        let target = target(location, "shallow=true&limitToFirst=\(Self.listedCount)" + start)
        var json: [UInt8] = []
        try client.get(target) { json += $0 }
        var parser = NodeStreamParser()
        do throws(NodeStreamParser.Problem) {
            _ = try parser.read(json.rawSpan, isLast: true)
        } catch {
            throw ServerClient.Failure(
                text: "\(location): the list of what was there is \(error.text)", exitCode: Exit.badData)
        }
        return parser.finish()
    }

    private func target(_ location: Path, _ query: String) -> String {
        RESTTarget(location, of: namespace).text(query)
    }
}

/// The response to a shallow read, in pieces of any size: only whether it is `null` counts.
struct ShallowValue {
    /// The first bytes that are no white space, one more than `null` has at most.
    private var start: [UInt8] = []

    mutating func append(_ piece: [UInt8]) {
        for byte in piece where byte > 0x20 {
            guard start.count < 5 else { return }
            start.append(byte)
        }
    }

    /// Whether what came so far is `null` or its beginning.
    var mayBeNull: Bool { "null".utf8.starts(with: start) }
}

/// A location as a REST request names it.
struct RESTTarget {
    private let location: String

    init(_ path: Path, of namespace: String) {
        let path = path.keys.map { encodePercent($0.string.utf8) }.joined(separator: "/")
        location = "/\(path).json?ns=\(encodePercent(namespace.utf8))"
    }

    /// - Parameter query: More of the query, escaped.
    func text(_ query: String) -> String { location + "&" + query }
}

/// Gathers parts of a tree into bodies of multi-path updates. Where the server, or a proxy before it, refuses
/// one as too large, its parts are sent in smaller ones, and so are all that follow.
struct ChunkWriter {
    private struct Part {
        /// The path below where the import goes; `.priority` may be its last segment.
        let name: String
        let node: Node
    }

    private let noteParts: () -> Void
    private let send: ([UInt8]) throws -> Void
    /// What was not sent yet, and about how many bytes that is.
    private var parts: [Part] = []
    private var byteCount = 0
    /// About how many bytes a body has at most, unless one part has more.
    private var byteLimit: Int
    /// Bodies that were accepted.
    private(set) var count = 0
    /// The objects whose children were sent instead of them, by their paths: what they had besides is still
    /// there.
    private(set) var parted: [(location: Path, node: Node)] = []

    /// - Parameters:
    ///   - noteParts: Called before each body is parted.
    ///   - send: Throws ``ServerClient/Failure``.
    init(
        byteLimit: Int = OnlineImport.chunkByteCount, noteParts: @escaping () -> Void,
        _ send: @escaping ([UInt8]) throws -> Void
    ) {
        self.byteLimit = byteLimit
        self.noteParts = noteParts
        self.send = send
    }

    static func hasParts(_ node: Node) -> Bool {
        if case .object = node.withoutPriority { true } else { false }
    }

    /// - Parameter location: That of the node, below where the import goes.
    mutating func addParts(of node: Node, at location: Path) throws {
        parted.append((location, node))
        let start = location.isRoot ? "" : location.wireText + "/"
        try node.children.forEach { key, child throws(any Error) in
            if Self.hasParts(child), child.isHeavier(than: byteLimit) {
                try addParts(of: child, at: location.appending(key))
            } else {
                try add(child, at: start + key.string)
            }
            return true
        }
        // Behind the children: what has none has no priority.
        if let priority = node.priority { try add(priority.node, at: start + Path.priorityKey.string) }
    }

    mutating func add(_ node: Node, at name: String) throws {
        // With quotes, a colon and a comma.
        let partByteCount = name.utf8.count + 4 + node.weight(upTo: byteLimit)
        if byteCount + partByteCount > byteLimit { try flush() }
        parts.append(Part(name: name, node: node))
        byteCount += partByteCount
    }

    mutating func flush() throws {
        let gathered = exchange(&parts, with: [])
        byteCount = 0
        try write(gathered[...])
    }

    private mutating func write(_ parts: ArraySlice<Part>) throws {
        guard let first = parts.first else { return }
        let body = Self.body(of: parts)
        do {
            try send(body)
            count += 1
            return
        } catch let error as ServerClient.Failure
            where error.isTooLarge && (parts.count > 1 || Self.hasParts(first.node))
        {
            byteLimit = max(1, min(byteLimit, body.count / 2))
        }
        noteParts()
        guard parts.count > 1 else {
            try addParts(of: first.node, at: Path(trusted: first.name))
            return try flush()
        }
        let middle = parts.startIndex + parts.count / 2
        try write(parts[..<middle])
        try write(parts[middle...])
    }

    private static func body(of parts: ArraySlice<Part>) -> [UInt8] {
        var body: [UInt8] = []
        for part in parts {
            body.append(UInt8(ascii: body.isEmpty ? "{" : ","))
            body.append(json: Text(part.name))
            body.append(UInt8(ascii: ":"))
            body.append(json: part.node)
        }
        body.append(UInt8(ascii: "}"))
        return body
    }
}
