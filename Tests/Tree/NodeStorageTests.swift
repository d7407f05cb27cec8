import PandoBytes
import PandoTree
import Testing

/// A node has its case in bits that no payload uses: with any payload the case is read
/// as it was written, and so is the payload.
@Suite struct NodeStorage {
    @Test func sizeIsSixteenBytes() {
        #expect(MemoryLayout<Node>.size == 16 && MemoryLayout<Node>.stride == 16)
        #expect(MemoryLayout<Node?>.size == 16)
        #expect(MemoryLayout<Priority>.size == 16)
    }

    /// Each bit alone, each bit missing, and the borders of texts.
    private static let leaves: [(Node, String)] = {
        var leaves: [(Node, String)] = [(.boolean(false), "false"), (.boolean(true), "true")]
        for bit in 0..<64 {
            let pattern = UInt64(1) << UInt64(bit)
            for bits in [pattern, ~pattern, pattern &- 1] {
                let integer = Int64(bitPattern: bits)
                leaves.append((.integer(integer), "\(integer)"))
                let double = Double(bitPattern: bits)
                if double.isFinite, case .double(let kept) = Node.number(double) {
                    leaves.append((.double(kept), double.description))
                }
            }
        }
        for count in 0...40 {
            for character in ["x", "é", "\u{10FFFF}", "\u{7F}"] where count % character.utf8.count == 0 {
                let text = String(repeating: character, count: count / character.utf8.count)
                leaves.append((.string(Text(text)), "\"\(text)\""))
            }
        }
        return leaves
    }()

    @Test func casesAndPayloadsRoundTrip() throws {
        let strings = Self.leaves.map(\.1)
        let nodes = Self.leaves.map(\.0)
        #expect(nodes.map(\.description) == strings)
        let wrapped: [Node?] = nodes + [nil, Node.empty]
        #expect(wrapped.map { $0?.description } == strings + [nil, "null"])
        for (index, node) in nodes.enumerated() {
            for priority in [Priority.number(1.5), .string("a priority of 24 bytes..")] {
                let carried = node.with(priority: priority)
                #expect(carried.priority == priority && carried.withoutPriority.description == strings[index])
            }
            let object = Node.children(
                Children(ascending: [
                    Children.Entry(key: "a", node: node), Children.Entry(key: "b", node: node),
                ]))
            #expect(object.description == "{\"a\":\(strings[index]),\"b\":\(strings[index])}")
            #expect(object["a" as Key] == node && object["b" as Key].isLeaf)
            for (other, text) in zip(nodes, strings) where (node == other) != (strings[index] == text) {
                Issue.record("\(node) and \(other)")
            }
        }
    }
}
