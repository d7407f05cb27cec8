import PandoBytes
import PandoRandom
import PandoTree
import Testing

@Suite struct ChildrenAgainstAModel {
    /// A B+tree and a dictionary that is its model.
    struct Pair {
        var children = Children()
        var model: [Key: Node] = [:]

        mutating func set(_ key: Key, _ node: Node) {
            let old = children.update(key) { child in
                defer { child = node }
                return child
            }
            // Not `#expect`: a million of them are slow.
            if old != model[key] ?? .empty { Issue.record("\(key) was \(old)") }
            model[key] = node.isEmpty ? nil : node
        }

        func check(_ comment: String = "") {
            children.checkInvariants()
            let sorted = model.map { ($0.key, $0.value) }.sorted { $0.0 < $1.0 }
            #expect(children.count == sorted.count, "\(comment)")
            #expect(children.isEmpty == sorted.isEmpty, "\(comment)")
            #expect(children.entries.map(\.key) == sorted.map(\.0), "\(comment)")
            #expect(children.entries.map(\.node) == sorted.map(\.1), "\(comment)")
            let ranks = [-1, 0, 1, sorted.count / 2, sorted.count - 1, sorted.count, sorted.count + 1]
            for rank in ranks {
                let key = sorted.indices.contains(rank) ? sorted[rank].0 : nil
                #expect(children.key(at: rank) == key, "\(comment)")
                if let key { #expect(children.rank(of: key) == rank, "\(comment)") }
            }
            // Keys that are there and keys that are not.
            for index in stride(from: 0, to: 9000, by: 451) {
                let key = Key(index: index)
                #expect(children.rank(of: key) == sorted.count { $0.0 < key }, "\(key), \(comment)")
            }
            for (key, node) in model where children[key] != node {
                Issue.record("\(key) is lost: \(comment)")
                return
            }
        }
    }

    /// Bursts of inserts, changes and removals of neighbouring keys, with snapshots that must not change.
    @Test(arguments: 0..<9) func randomBursts(seed: Int) {
        var generator = SeededGenerator(seed: seed)
        var pair = Pair()
        var snapshots: [Pair] = []
        // Few keys or many: small objects stay one page, the others grow to three levels.
        let range = [40, 600, 9000][seed % 3]
        for burst in 0..<16 {
            let removalShare = [1, 5, 9, 3][burst % 4]
            let center = Int.random(in: 0..<range, using: &generator)
            let spread = burst % 3 == 0 ? range : max(1, range / 20)
            for _ in 0..<(range / 4 + 10) {
                let key = Key(index: (center + Int.random(in: 0..<spread, using: &generator)) % range)
                let removes = Int.random(in: 0..<10, using: &generator) < removalShare
                pair.set(key, removes ? .empty : .integer(Int64.random(in: 0...9, using: &generator)))
            }
            pair.check("seed \(seed), burst \(burst)")
            if burst % 6 == 0 { snapshots.append(pair) }
        }
        for snapshot in snapshots { snapshot.check("snapshot, seed \(seed)") }
        for key in pair.model.keys.shuffled(using: &generator) { pair.set(key, .empty) }
        pair.check("emptied")
        #expect(pair.children == Children())
    }

    /// Two inner pages join after the right one has lost its first page and got keys before its second: the
    /// old boundary of its first two pages must not become their boundary to the left page.
    @Test func innerPagesJoin() {
        // 64 full pages of 32, under two inner pages.
        let count = 2048
        var pair = Pair()
        for index in 0..<count { pair.model[Key(index: index * 2)] = .boolean(true) }
        pair.children = Children(
            ascending: (0..<count).map { .init(key: Key(index: $0 * 2), node: .boolean(true)) })
        // The first page of the right inner page is removed; a key is added that is smaller than all of the
        // next page.
        for index in 1024..<1056 { pair.set(Key(index: index * 2), .empty) }
        let low = Key(index: 1028 * 2 + 1)
        pair.set(low, .boolean(false))
        pair.children.checkInvariants()
        // Both inner pages shrink until they join.
        for index in stride(from: count - 1, to: 1200, by: -1) { pair.set(Key(index: index * 2), .empty) }
        for index in 0..<830 { pair.set(Key(index: index * 2), .empty) }
        #expect(pair.children[low] == .boolean(false))
        pair.check("joined")
        for index in 830..<1024 { pair.set(Key(index: index * 2), .empty) }
        pair.check("the left one is gone")
    }

    enum Order: CaseIterable { case ascending, descending, random, fromTheMiddle }

    @Test(arguments: Order.allCases) func twentyThousand(order: Order) {
        var generator = SeededGenerator(seed: 7)
        var indices = Array(0..<20_000)
        switch order {
        case .ascending: break
        case .descending: indices.reverse()
        case .random: indices.shuffle(using: &generator)
        case .fromTheMiddle: indices.sort { abs($0 - 10_000) < abs($1 - 10_000) }
        }
        var pair = Pair()
        for index in indices { pair.set(Key(index: index), .integer(Int64(index))) }
        pair.check()
        for index in indices where index % 3 != 0 { pair.set(Key(index: index), .empty) }
        pair.check()
    }

    /// Built at once or child by child: equal, whatever the pages are.
    @Test(arguments: [0, 1, 2, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025, 2049, 20_000]) func ascending(
        count: Int
    ) {
        let entries = (0..<count).map { Children.Entry(key: Key(index: $0), node: .integer(Int64($0))) }
        let built = Children(ascending: entries)
        built.checkInvariants()
        #expect(built.count == count)
        #expect(built.entries.map(\.key) == entries.map(\.key))
        var grown = Children()
        for entry in entries.reversed() { grown.update(entry.key) { $0 = entry.node } }
        #expect(built == grown)
        #expect(grown == built)
        guard count > 0 else { return }
        var changed = grown
        changed.update(Key(index: count / 2)) { $0 = .boolean(true) }
        #expect(built != changed && grown != changed)
        changed.update(Key(index: count / 2)) { $0 = .integer(Int64(count / 2)) }
        #expect(built == changed && grown == changed)
        changed.update(Key(index: count / 2)) { $0 = .empty }
        changed.update(Key(index: count)) { $0 = .integer(0) }
        #expect(changed.count == count && built != changed)
    }

    @Test(arguments: [0, 1, 5, 32, 33, 200, 5000]) func walks(count: Int) {
        let keys = (0..<count).map { Key(index: $0 * 2) }
        let children = Children(ascending: keys.map { .init(key: $0, node: .boolean(true)) })
        var starts: [Key?] = [nil, "!", "~", "-5"]
        starts += Set([0, 1, 2, count / 2, count - 1, count]).map { Key(index: max(0, $0) * 2) }
        starts += Set([0, 1, 31, 32, count / 2, count]).map { Key(index: $0 * 2 + 1) }
        for start in starts {
            for limit in [1, 3, 70, Int.max] {
                var seen: [Key] = []
                let ended = children.forEach(from: start) { key, _ in
                    seen.append(key)
                    return seen.count < limit
                }
                let expected = keys.filter { start == nil || $0 >= start! }
                #expect(seen == Array(expected.prefix(limit)))
                #expect(ended == (expected.count < limit))

                var reversed: [Key] = []
                children.forEachReversed(from: start) { key, _ in
                    reversed.append(key)
                    return reversed.count < limit
                }
                #expect(
                    reversed == Array(keys.reversed().filter { start == nil || $0 <= start! }.prefix(limit)))
            }
        }
    }

    @Test func errorOfABodyIsThrown() {
        struct Stop: Error {}
        let children = Children(ascending: (0..<200).map { .init(key: Key(index: $0), node: .boolean(true)) })
        var count = 0
        #expect(throws: Stop.self) {
            try children.forEach { (_, _) throws(Stop) in
                count += 1
                if count == 100 { throw Stop() }
                return true
            }
        }
        #expect(count == 100)
    }

    /// Removing a missing child changes nothing, not even the pages.
    @Test func removingAMissingChildChangesNothing() {
        var children = Children(
            ascending: (0..<5000).map { .init(key: Key(index: $0), node: .boolean(true)) })
        let before = children
        children.update("missing") { $0 = .empty }
        children.update("1x") { _ in }
        #expect(children == before)
        children.checkInvariants()
        children = Children()
        children.update("a") { $0 = .empty }
        #expect(children.isEmpty)
    }
}
