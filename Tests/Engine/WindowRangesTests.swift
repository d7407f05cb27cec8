import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoEngine

@Suite struct WindowRangesTests {
    /// Ranges that overlap, begin at one place, have no beginning or no end.
    @Test(arguments: 0..<8) func rangesAgainstAModel(seed: Int) {
        var random = SeededGenerator(seed: seed)
        func place() -> IndexPlace? {
            guard !random.chance(15) else { return nil }
            let value: Node =
                random.chance(50)
                ? .integer(Int64.random(in: 0..<40, using: &random))
                : .string(Text("a shared beginning \(Int.random(in: 10..<40, using: &random))"))
            return IndexPlace(value, random.pick([.lowest, .key("b"), .key("d"), .highest]))
        }
        let query = Query()
        var all: [WindowRanges.Range] = []
        var ranges = WindowRanges()
        for number in 0..<1500 {
            if !all.isEmpty, random.chance(number < 900 ? 20 : 70) {
                ranges.remove(all.remove(at: Int.random(in: all.indices, using: &random)))
            } else {
                let view = QueryView(query: query, at: .root, window: Window(query, over: .empty))
                let range = WindowRanges.Range(low: place(), high: place(), number: number, view: view)
                ranges.insert(range)
                all.append(range)
            }
            guard number % 10 == 0 else { continue }
            let wanted = (0...number / 10 % 4).compactMap { _ in place() }.sorted {
                IndexPlace.compare($0, $1) < 0
            }
            #expect(ranges.checkInvariants() == all.count)
            var found: [[Int]] = []
            var left = all.count
            let isComplete = ranges.forEach(atAnyOf: wanted, &left) { range, first, _ in
                found.append([range.number, first])
            }
            #expect(isComplete && left <= all.count - found.count, "each range is compared once")
            if !found.isEmpty {
                var fewer = all.count - left - 1
                let isComplete = ranges.forEach(atAnyOf: wanted, &fewer) { _, _, _ in }
                #expect(!isComplete, "the comparisons do not suffice")
            }
            let expected = all.compactMap { range -> [Int]? in
                let first = wanted.firstIndex { place in
                    (range.low.map { IndexPlace.compare($0, place) <= 0 } ?? true)
                        && (range.high.map { IndexPlace.compare($0, place) >= 0 } ?? true)
                }
                return first.map { [range.number, $0] }
            }
            #expect(
                found.sorted { $0[0] < $1[0] } == expected.sorted { $0[0] < $1[0] },
                "seed \(seed), step \(number)")
        }
    }

    /// What many clients with different windows hold, after each write and its pushes.
    @Test(arguments: 0..<2) func manyWindowsFollowWrites(seed: Int) {
        var random = SeededGenerator(seed: seed)
        let held = Held(Engine(root: .empty, access: .open))
        if seed % 2 == 0 { held.engine.tree.indexes.unindexedChildCount = 0 }
        func run(_ operation: PandoEngine.Operation, _ session: UInt64 = 1) -> Effects {
            held.engine.execute(
                Command(session: SessionID(session), credential: .anonymous, time: 1, operation: operation)
            ).1
        }
        func work() {
            while held.engine.tree.hasIndexWork {
                for job in held.engine.tree.takeIndexWork().jobs { held.engine.tree.finish(job.perform()) }
            }
        }
        func bound() -> Bound? {
            guard random.chance(60) else { return nil }
            let value = Node.integer(Int64.random(in: 0..<50, using: &random))
            return Bound(
                value: value, key: random.pick([.lowest, .highest, .key("k25")]),
                isInclusive: random.chance(70))
        }
        func write() {
            var writes: [Write] = []
            for _ in 0..<(random.chance(20) ? 5 : 1) {
                let key = Key(unchecked: Text("k\(Int.random(in: 10..<60, using: &random))"))
                let value = Node.integer(Int64.random(in: 0..<50, using: &random))
                let below: Path = random.pick(["", "n", "n", "n", "m/x", "m/y"])
                let path = Path(["list", key]).appending(below.keys)
                guard
                    !writes.contains(where: { $0.target.path.contains(path) || path.contains($0.target.path) }
                    )
                else { continue }
                writes.append(Write(Target(path), Draft(random.chance(25) ? .empty : value)))
            }
            for push in run(.merge(base: "list", writes)).pushes {
                let entries: [(Path, Node)] =
                    switch push.body {
                    case .overwrite(let path, let node): [(path, node)]
                    case .merge(let base, let entries):
                        entries.map { (base.appending($0.path.keys), $0.node) }
                    case .rangeMerge, .initial, .listens: []
                    }
                for recipient in push.taggedRecipients {
                    for (path, node) in entries { caches[recipient.tag]?.set(node, at: path) }
                }
            }
        }
        var queries: [Int64: Query] = [:]
        var caches: [Int64: Node] = [:]
        for step in 0..<500 {
            if step < 150 || random.chance(20) {
                let tag = Int64(step)
                let order: ChildOrder = random.pick([
                    .child("n"), .child("n"), .child("m/x"), .child("m/y"), .compound(["m/x", "n"]), .value,
                    .key, .priority,
                ])
                // The ends of a compound order are texts.
                let isCompound = order == .compound(["m/x", "n"])
                var query = Query(
                    order: order, start: isCompound ? nil : bound(), end: isCompound ? nil : bound())
                if random.chance(70) || query.loadsAllData {
                    query.limit = .init(
                        count: Int.random(in: 1...5, using: &random), anchor: random.pick([.first, .last]))
                }
                queries[tag] = query
                caches[tag] = Node.empty
                caches[tag]?.set(Window(query, over: held.engine.root["list" as Key]).node, at: "list")
                _ = run(.listen(Listen(path: "list", query: query, tag: tag)), UInt64(tag + 2))
                held.engine.tree.noteUse(of: query, at: "list", isLasting: true, at: 1)
            } else if random.chance(20), let tag = queries.keys.sorted().randomElement(using: &random) {
                _ = run(.unlisten("list", queries[tag], tag: tag), UInt64(tag + 2))
                queries[tag] = nil
            } else {
                write()
            }
            work()
            _ = held.engine.checkInvariants()
            for (tag, query) in queries {
                let expected = Window(query, over: held.engine.root["list" as Key]).node
                if caches[tag]?["list" as Key] != expected {
                    Issue.record(
                        "seed \(seed), step \(step), \(query): \(caches[tag] ?? .empty) not \(expected)")
                    return
                }
            }
        }
    }
}
