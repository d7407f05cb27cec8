import PandoBytes
import PandoRandom
import Testing

@testable import PandoTree

@Suite struct DifferencesTests {
    private static func key(_ number: Int) -> Key { Key(unchecked: Text("k\(number)")) }

    /// Random writes between two snapshots: the differences are those of a comparison of every child.
    @Test(arguments: 0..<40 as Range<UInt64>) func differencesAreThoseOfEveryChild(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var children = Children()
        let size = [0, 5, 40, 2000, 5000].randomElement(using: &random) ?? 0
        func set(_ number: Int, _ node: Node) {
            var context = node
            children.update(Self.key(number), with: &context) { child, context in child = context }
        }
        for number in 0..<size { set(number, .integer(Int64(number))) }
        let before = children
        for _ in 0..<Int.random(in: 0...300, using: &random) {
            let number = Int.random(in: 0...(size + 50), using: &random)
            set(
                number,
                Bool.random(using: &random) ? .empty : .integer(Int64.random(in: 0...9, using: &random)))
        }
        // Many removals or additions in a row, so that the number of levels changes.
        if Bool.random(using: &random) { for number in 0..<(size / 2) { set(number, .empty) } }
        if Bool.random(using: &random) { for number in size..<(2 * size) { set(number, .boolean(true)) } }
        children.checkInvariants()
        let found = try #require(children.differences(from: before, atMost: .max / 2))
        let expected = Set(before.entries.map(\.key) + children.entries.map(\.key)).sorted().compactMap {
            key in
            before[key] == children[key] ? nil : "\(key.string) \(before[key]) \(children[key])"
        }
        #expect(found.map { "\($0.key.string) \($0.old) \($0.new)" } == expected, "seed \(seed)")
    }

    @Test func fewChangesInALargeObjectAreFoundWithinAFewPages() throws {
        let entries = (0..<100_000).map { Children.Entry(key: Self.key($0), node: .integer(Int64($0))) }
        var children = Children(ascending: entries.sorted { $0.key < $1.key })
        let before = children
        for number in [0, 50_000, 99_999] {
            var context = Node.boolean(true)
            children.update(Self.key(number), with: &context) { child, context in child = context }
        }
        let found = try #require(children.differences(from: before, atMost: 20_000))
        #expect(found.count == 3)
        #expect(children.differences(from: Children(), atMost: 1000) == nil)
    }
}
