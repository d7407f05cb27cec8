import PandoRandom
import Testing

@testable import PandoTree

/// Children that are appended in key order, run by run, make the same object as one by one.
@Suite struct AppendTests {
    @Test(arguments: 0..<60 as Range<UInt64>)
    func runs(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var children = Children()
        var all: [Children.Entry] = []
        for _ in 0..<Int.random(in: 1...6, using: &random) {
            let count = random.pick([0, 1, 5, 31, 32, 33, 100, 1025, 3000])
            var run = ContiguousArray(
                (0..<count).map { Children.Entry(key: Key(index: all.count + $0), node: .integer(Int64($0))) }
            )
            all += run
            let isDone = children.append(taking: &run)
            #expect(isDone && run.isEmpty)
            children.checkInvariants()
            #expect(children.count == all.count)
        }
        #expect(children.entries.map(\.key) == all.map(\.key))
        #expect(children == Children(ascending: all))
        // What was appended can be changed like any other child.
        for entry in all where random.one(in: 3) { children.update(entry.key) { $0 = .empty } }
        children.checkInvariants()
    }

    @Test func snapshotsDoNotChange() {
        var run = ContiguousArray((0..<500).map { Children.Entry(key: Key(index: $0), node: .boolean(true)) })
        var children = Children()
        _ = children.append(taking: &run)
        let snapshot = children
        var more = ContiguousArray(
            (500..<900).map { Children.Entry(key: Key(index: $0), node: .boolean(true)) })
        _ = children.append(taking: &more)
        #expect(snapshot.count == 500 && children.count == 900)
        snapshot.checkInvariants()
    }

    @Test func entriesThatDoNotComeLastAreRefused() throws {
        var node = try node(#"{"a":{"c":1},"l":1,"p":{".priority":1,"x":1}}"#)
        let before = node
        func append(_ key: Key, at path: Path) -> Bool {
            var run: ContiguousArray = [Children.Entry(key: key, node: .boolean(true))]
            return node.append(&run, at: path)
        }
        #expect(!append("b", at: "a") && !append("c", at: "a"), "not behind the last")
        #expect(!append("x", at: "l"), "below a leaf")
        #expect(!append("y", at: "p"), "below a priority")
        #expect(node == before)
        #expect(append("d", at: "a") && append("e", at: "q/r"))
        #expect(
            node.description
                == #"{"a":{"c":1,"d":true},"l":1,"p":{".priority":1,"x":1},"q":{"r":{"e":true}}}"#)
    }
}
