import COperatingSystem
import Glibc
import PandoBytes
import PandoRandom
import Testing

@testable import PandoTree

/// The memory of an index as the allocator counts it, for the whole process: so these tests run in a process
/// without others.
@Suite(.serialized, .enabled(if: hasOwnProcess)) struct IndexAllocationTests {
    private static let count = 200_000

    private static var allocatedByteCount: Int { Int(pando_heap_used_bytes()) }

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
        let before = Self.allocatedByteCount
        var index = OrderedIndex(ordering: tree.children, by: .value)
        let built = Self.allocatedByteCount - before
        // The allocator also counts what the process allocates beside the index: some kilobytes of 5 MB.
        let counted = Double(index.byteCount) / Double(Self.count)
        #expect(counted <= 24, "\(counted) bytes for each child")
        #expect(abs(built - index.byteCount) <= built / 100, "\(index.byteCount) counted, \(built) allocated")

        // Each write moves a child to a random place. Values are replaced by equally long ones.
        for _ in 0..<Self.count {
            let key = keys[Int.random(in: 0..<Self.count, using: &random)]
            let isRemoved = index.remove(tree[key], key)
            #expect(isRemoved)
            let new = value()
            tree.set(new, at: Path([key]))
            index.insert(new, key, in: tree.children)
        }
        let written = Self.allocatedByteCount - before
        #expect(written <= 30 * Self.count, "\(Double(written) / Double(Self.count)) bytes for each child")
        // Pages above may hold texts that the tree does not any more.
        #expect(
            abs(written - index.byteCount) <= written / 25, "\(index.byteCount) counted, \(written) allocated"
        )
    }
}

/// Whether this process has no other tests.
private var hasOwnProcess: Bool { unsafe getenv("PANDO_COUNTS_CALLS") != nil }
