import Foundation
import PandoTree
import Testing

@testable import PandoCommandLine

/// Imports into a server that accepts less than a file at once.
@Suite struct ChunkWriterTests {
    /// A server that accepts bodies up to a limit.
    final class Server {
        let byteLimit: Int
        var accepted: [[UInt8]] = []

        init(byteLimit: Int) { self.byteLimit = byteLimit }

        func take(_ body: [UInt8]) throws {
            guard body.count <= byteLimit else {
                throw ServerClient.Failure(text: "413", exitCode: Exit.badData, isTooLarge: true)
            }
            accepted.append(body)
        }

        /// All leaves of all bodies, by their paths.
        var leaves: [String: String] {
            get throws {
                var all: [String: String] = [:]
                for body in accepted {
                    let object = try JSONSerialization.jsonObject(with: Data(body)) as? [String: Any] ?? [:]
                    all.merge(ChunkWriterTests.leaves(object, at: "")) { _, new in new }
                }
                return all
            }
        }
    }

    static func leaves(_ value: Any, at path: String) -> [String: String] {
        guard let object = value as? [String: Any] else { return [path: "\(value)"] }
        var all: [String: String] = [:]
        for (name, child) in object { all.merge(leaves(child, at: "\(path)/\(name)")) { _, new in new } }
        return all
    }

    static func node(_ json: String) throws -> Node {
        var parser = NodeStreamParser()
        let bytes = Array(json.utf8)
        _ = try parser.read(bytes.rawSpan, isLast: true)
        return parser.finish()
    }

    static let json =
        #"{"a":{"b":{"x":1,"y":[1,2,3]},".priority":7,"c":"text"},"d":{"e":true,"g":{}},"f":5}"#

    @Test(
        arguments: [
            // limit   paths of the objects that are parted
            (1000, ["/"]), (60, ["/"]), (40, ["/", "/a"]), (20, ["/", "/a", "/a/b", "/a/b/y"]),
        ] as [(Int, [String])])
    func acceptedBodiesAreTheTree(byteLimit: Int, parted: [String]) throws {
        let node = try Self.node(Self.json)
        var whole: [UInt8] = []
        whole.append(json: node)
        let server = Server(byteLimit: byteLimit)
        var noteCount = 0
        var writer = ChunkWriter(noteParts: { noteCount += 1 }) { try server.take($0) }
        try writer.addParts(of: node, at: Path.root)
        try writer.flush()
        let expected = Self.leaves(try JSONSerialization.jsonObject(with: Data(whole)), at: "")
        #expect(try server.leaves == expected)
        #expect(writer.count == server.accepted.count)
        #expect((writer.count > 1) == (noteCount > 0))
        let locations = Set(writer.parted.map(\.location.description))
        #expect(locations.isSuperset(of: parted))
    }

    @Test func aLeafThatIsTooLargeIsRefused() throws {
        let node = try Self.node(#"{"a":1,"b":"\#(String(repeating: "x", count: 100))","c":2}"#)
        let server = Server(byteLimit: 50)
        var writer = ChunkWriter(noteParts: {}) { try server.take($0) }
        try writer.addParts(of: node, at: Path.root)
        var isRefused = false
        do { try writer.flush() } catch is ServerClient.Failure { isRefused = true }
        #expect(isRefused)
        #expect(try server.leaves == ["/a": "1"])
    }
}
