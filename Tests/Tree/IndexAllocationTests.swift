import COperatingSystem
import Glibc
import PandoBytes
import PandoRandom
import Testing

@testable import PandoTree

/// The memory of an index as the allocator counts it, for the whole process: so these tests run in a process
/// without others. What the index has is what its end frees: that takes a moment, in which no other thread of
/// the process allocates much.
@Suite(.serialized, .enabled(if: hasOwnProcess)) struct IndexAllocationTests {
    private static let count = 100_000

    private static func freedByteCount(by free: () -> Void) -> Int {
        let before = Int(pando_heap_used_bytes())
        free()
        return before - Int(pando_heap_used_bytes())
    }

    @Test(arguments: ["numbers", "texts"]) func bytesForEachChild(kind: String) {
        var random = SeededGenerator(seed: 3)
        func value() -> Node {
            let number = Int64.random(in: 1 << 40..<1 << 41, using: &random)
            return kind == "numbers" ? .integer(number) : .string(Text("player \(number)"))
        }
        var ids = PushIDGenerator()
        var tree = Node.object(
            Children(
                ascending: (0..<Self.count).map { number in
                    let key = ids.next(
                        milliseconds: 1_760_000_000_000 + Int64(number),
                        random: .init(high: 0, low: random.next()))
                    return .init(key: key, node: value())
                }))
        var keys: ContiguousArray<Key> = []
        tree.children.forEach { key, _ in
            keys.append(key)
            return true
        }
        let before = Int(pando_heap_used_bytes())
        var index: OrderedIndex! = OrderedIndex(ordering: tree.children, by: .value)
        let built = index.byteCount
        let counted = Double(built) / Double(Self.count)
        #expect(counted <= 24, "\(counted) bytes for each child")
        let freed = Self.freedByteCount { index = nil }
        #expect(abs(freed - built) <= built / 100, "\(built) counted, \(freed) freed")
        index = OrderedIndex(ordering: tree.children, by: .value)

        // Each write moves a child to a random place. Values are replaced by equally long ones.
        for _ in 0..<Self.count {
            let key = keys[Int.random(in: 0..<Self.count, using: &random)]
            let isRemoved = index.remove(tree[key], key)
            #expect(isRemoved)
            let new = value()
            tree.set(new, at: Path([key]))
            index.insert(new, key, in: tree.children)
        }
        let written = index.byteCount
        #expect(written <= 30 * Self.count, "\(Double(written) / Double(Self.count)) bytes for each child")
        let freedAtEnd = Self.freedByteCount { index = nil }
        // Pages above may hold texts that the tree does not any more.
        #expect(
            abs(freedAtEnd - written) <= written / 25, "\(written) counted, \(freedAtEnd) freed")
        // Nothing of it is left; the rest of the process may have grown a little meanwhile.
        let left = Int(pando_heap_used_bytes()) - before
        #expect(left <= written / 4, "\(left) bytes are left")
    }
}

/// Whether this process has no other tests.
private var hasOwnProcess: Bool { unsafe getenv("PANDO_COUNTS_CALLS") != nil }
