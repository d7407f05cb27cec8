import Foundation
import PandoBytes
import PandoTree

/// Writes a tree to a running server through REST: in one atomic write where it fits, else in several, each
/// of them atomic.
///
/// The tree is complete before the first write: a file with an error at its end changes nothing.
struct OnlineImport {
    let client: ServerClient
    let namespace: String
    let path: Path
    let merges: Bool
    let replaces: Bool
    /// Called after each of several writes, with the bytes of the tree that it wrote.
    let progress: (_ byteCount: Int) -> Void

    /// Bytes of one write: far below what a server accepts (`--max-write-bytes`), and a fraction of a second
    /// of its time.
    static let chunkByteCount = 4 << 20

    private struct DataIsThere: Error {}

    /// Whether there is data where the import goes.
    /// - Throws: ``ServerClient/Failure``.
    func findsData() throws -> Bool {
        var value = ShallowValue()
        do {
            try client.get(target("shallow=true")) { piece in
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
            try client.send("PUT", target("print=silent"), json)
            return 1
        }
        var chunks = Chunks { body in
            try client.send("PATCH", target("print=silent"), body)
            progress(body.count)
        }
        if replaces {
            try client.send("PUT", target("print=silent"), Array("null".utf8))
            progress(0)
            chunks.count += 1
        }
        // Parts of the root, however small it is: what is beside them stays.
        try chunks.addParts(of: node, named: "")
        try chunks.flush()
        return chunks.count
    }

    /// Whether ``run(_:)`` will need several writes.
    static func isParted(_ node: Node) -> Bool {
        !node.isLeaf && node.isHeavier(than: chunkByteCount)
    }

    private func target(_ query: String) -> String {
        RESTTarget(path, of: namespace).text(query)
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

    /// RFC 3986 §2.3, but for the dot.
    private static let plain = CharacterSet(
        charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_~")

    init(_ path: Path, of namespace: String) {
        func escaped(_ text: String) -> String {
            text.addingPercentEncoding(withAllowedCharacters: Self.plain) ?? text
        }
        location =
            "/\(path.keys.map { escaped($0.string) }.joined(separator: "/")).json?ns=\(escaped(namespace))"
    }

    /// - Parameter query: More of the query, escaped.
    func text(_ query: String) -> String { location + "&" + query }
}

/// Gathers parts of a tree into bodies of multi-path updates.
private struct Chunks {
    private let send: ([UInt8]) throws -> Void
    private var body: [UInt8] = []
    var count = 0

    init(_ send: @escaping ([UInt8]) throws -> Void) {
        self.send = send
    }

    /// - Parameter name: The path of the node, from where the import goes, and a slash; nothing for that
    ///   itself.
    mutating func addParts(of node: Node, named name: String) throws {
        try node.children.forEach { key, child throws(any Error) in
            let path = name + key.string
            if child.isHeavier(than: OnlineImport.chunkByteCount), case .object = child.withoutPriority {
                try addParts(of: child, named: path + "/")
            } else {
                try add(child, named: path)
            }
            return true
        }
        // Behind the children: what has none has no priority.
        if let priority = node.priority { try add(priority.node, named: name + ".priority") }
    }

    private mutating func add(_ node: Node, named name: String) throws {
        body.append(UInt8(ascii: body.isEmpty ? "{" : ","))
        body.append(json: Text(name))
        body.append(UInt8(ascii: ":"))
        body.append(json: node)
        if body.count >= OnlineImport.chunkByteCount { try flush() }
    }

    mutating func flush() throws {
        guard !body.isEmpty else { return }
        body.append(UInt8(ascii: "}"))
        try send(body)
        body.removeAll(keepingCapacity: true)
        count += 1
    }
}
