import PandoBytes
import PandoRandom
import Testing

@testable import PandoTree

@Suite struct OrderWordTable {
    /// Ascending in the order of realtime §7.3.
    private static let ascending: [Node] = [
        .empty, .boolean(false), .boolean(true), .double(-.greatestFiniteMagnitude), .integer(.min),
        .double(-1e15 - 0.5), .integer(-3), .double(-2.000000000000001), .integer(-2), .double(-0.1),
        .double(-.leastNonzeroMagnitude), .integer(0), .double(.leastNonzeroMagnitude), .double(0.1),
        .double(0.10000000000000002), .integer(1),
        .integer(1 << 49), .integer(1 << 49 + 1), .integer(1 << 52), .integer(1 << 52 + 1), .integer(.max),
        .double(1e300), .string(""), .string("\0"), .string("\0\0"), .string("a"), .string("a\0"),
        .string("a\0\0\0\0\0\0"), .string("a\0\0\0\0\0\0\0"), .string("a\0b"), .string("abcdefg"),
        .string("abcdefg\0"), .string("abcdefgh"), .string("abcdefgi"), .string("b"), .string("é"),
        .string("\u{D7FF}"), .string("🐵"), .string("\u{E000}"), .string("\u{FFFF}"),
        .object(Children(ascending: [.init(key: "a", node: .integer(1))])),
    ]

    @Test func wordsAscendAsValuesDo() {
        for (left, a) in Self.ascending.enumerated() {
            for (right, b) in Self.ascending.enumerated() {
                let (x, y) = (OrderWord(a), OrderWord(b))
                #expect((Query.compareIndexValues(a, b) < 0) == (left < right), "\(a) \(b)")
                if x != y { #expect((x < y) == (left < right), "\(a) \(b)") }
                if x == y, left != right { #expect(!x.isExact && !y.isExact, "\(a) \(b)") }
            }
        }
    }

    @Test(
        arguments: [
            (.integer(1_763_900_000_123), true, "a time in milliseconds"), (.integer(1 << 49), true, ""),
            (.integer(1 << 49 + 1), false, "an odd integer beyond 2^49"), (.double(0.5), true, ""),
            (.double(0.1), false, ""), (.string("abcdefg"), true, "seven bytes"),
            (.string("abcdefgh"), false, "eight bytes"),
        ] as [(Node, Bool, String)])
    func exactness(value: Node, isExact: Bool, reason: String) {
        #expect(OrderWord(value).isExact == isExact, "\(reason)")
    }

    @Test func entriesTakeFewBytes() {
        #expect(MemoryLayout<IndexEntry>.stride == 24)
        #expect(MemoryLayout<PackedEntry>.stride == 22)
        #expect(MemoryLayout<OrderedIndex.Page>.stride == 16)
        #expect(MemoryLayout<OrderedIndex.Ref>.stride == 72)
    }
}

@Suite struct OrderedIndexAgainstAModel {
    private struct Maker {
        var generator: SeededGenerator

        mutating func key() -> Key {
            switch Int.random(in: 0..<4, using: &generator) {
            case 0: Key(index: Int.random(in: 0..<200, using: &generator))
            case 1: Key(unchecked: Text("k\(Int.random(in: 0..<200, using: &generator))"))
            case 2: Key(unchecked: Text("0\(Int.random(in: 0..<20, using: &generator))"))
            default:
                Key(unchecked: Text("a long key with number \(Int.random(in: 0..<200, using: &generator))"))
            }
        }

        /// Few distinct values of each type, so that keys often decide.
        mutating func value() -> Node {
            switch Int.random(in: 0..<7, using: &generator) {
            case 0: .empty
            case 1: .boolean(.random(using: &generator))
            case 2: .integer(Int64.random(in: -4...4, using: &generator))
            case 3: .number(generator.pick([0.1, 0.10000000000000002, -0.1, 1e300]))
            case 4: .string(generator.pick(["", "a", "ab", "\u{E000}", "🐵"]))
            case 5: .string(Text("a shared beginning \(Int.random(in: 0..<6, using: &generator))"))
            default: .object(Children(ascending: [.init(key: "x", node: .integer(1))]))
            }
        }

        /// A child with a value at `n`, and something beside it, so that it exists without.
        mutating func child() -> Node {
            var node = Node.empty
            node.set(.integer(1), at: Path(["beside"]))
            node.set(value(), at: Path(["n"]))
            return node
        }

        mutating func bound(_ children: Children) -> Bound? {
            guard !generator.one(in: 3) else { return nil }
            var value = value()
            if case .object = value { value = .empty }
            let key: BoundKey = generator.pick([.lowest, .highest, .key(key())])
            return Bound(value: value, key: key, isInclusive: .random(using: &generator))
        }
    }

    private static let order = ChildOrder.child(Path(["n"]))

    private func check(_ index: OrderedIndex, _ tree: Node, _ maker: inout Maker, _ comment: Comment) {
        index.checkInvariants(of: tree.children)
        for _ in 0..<8 {
            let limit: Query.Limit? =
                maker.generator.one(in: 3)
                ? nil
                : .init(
                    count: Int.random(in: 1...9, using: &maker.generator),
                    anchor: maker.generator.pick([.first, .last]))
            let query = Query(
                order: Self.order, start: maker.bound(tree.children), end: maker.bound(tree.children),
                limit: limit)
            // Without an index all children are compared.
            let scanned = Window(query, over: tree)
            let found = Window(IndexedQuery(query, by: .ordered(index)), over: tree)
            found.checkInvariants()
            #expect(found.entries.map(\.key) == scanned.entries.map(\.key), "\(comment): \(query)")
            #expect(found.entries.map(\.node) == scanned.entries.map(\.node), "\(comment): \(query)")
        }
    }

    @Test(arguments: 0..<8) func followsWrites(seed: Int) {
        var maker = Maker(generator: SeededGenerator(seed: seed))
        var tree = Node.empty
        for _ in 0..<Int.random(in: 0...400, using: &maker.generator) {
            tree.set(maker.child(), at: Path([maker.key()]))
        }
        var index = OrderedIndex(ordering: tree.children, by: Self.order)
        check(index, tree, &maker, "seed \(seed), made")
        for step in 0..<25 {
            // Copies stay as they are.
            let (before, oldTree) = (index, tree)
            var changes: [Key: (old: Node, new: Node)] = [:]
            let isShrinking = maker.generator.one(in: 2)
            for _ in 0..<Int.random(in: 1...(maker.generator.one(in: 5) ? 200 : 4), using: &maker.generator) {
                let key = maker.key()
                let new = maker.generator.one(in: isShrinking ? 2 : 8) ? .empty : maker.child()
                changes[key] = (changes[key]?.old ?? tree[key], new)
                tree.set(new, at: Path([key]))
            }
            var kept = KeptIndex.ordered(index)
            let isRight = kept.update(
                changes.map { key, change in
                    KeptIndex.ValueChange(
                        key: key, old: change.old.isEmpty ? nil : Self.order.value(of: change.old),
                        new: change.new.isEmpty ? nil : Self.order.value(of: change.new))
                }, in: tree.children)
            #expect(isRight)
            guard case .ordered(let after) = kept else { return }
            index = after
            check(index, tree, &maker, "seed \(seed), step \(step)")
            before.checkInvariants(of: oldTree.children)
        }
    }

    /// Values that ascend, descend, or are all the same: pages that fill at one end.
    @Test(arguments: ["ascending", "descending", "equal", "text"]) func largeIndexes(kind: String) {
        func value(_ number: Int) -> Node {
            switch kind {
            case "ascending": .integer(Int64(number))
            case "descending": .integer(Int64(-number))
            case "equal": .integer(7)
            default: .string(Text("2026-01-\(1_000_000 + number * 7919 % 10_000)"))
            }
        }
        var tree = Node.empty
        var index = OrderedIndex(ordering: tree.children, by: .value)
        for number in 0..<10_000 {
            let key = Key(index: number)
            tree.set(value(number), at: Path([key]))
            index.insert(value(number), key, in: tree.children)
        }
        index.checkInvariants(of: tree.children)
        #expect(OrderedIndex(ordering: tree.children, by: .value).count == 10_000)
        for number in stride(from: 0, to: 10_000, by: 1) where number % 100 != 3 {
            tree.set(.empty, at: Path([Key(index: number)]))
            let isRemoved = index.remove(value(number), Key(index: number))
            #expect(isRemoved)
        }
        index.checkInvariants(of: tree.children)
        let isThere = index.remove(value(0), Key(index: 0))
        #expect(!isThere)
        #expect(index.byteCount < 100 * 200, "removals free memory")
    }

    private static func values(_ kind: String, _ random: inout SeededGenerator) -> Node {
        switch kind {
        case "small integers": .integer(Int64.random(in: 0..<64_000, using: &random))
        case "times": .integer(1_760_000_000_000 + Int64.random(in: 0..<1 << 36, using: &random))
        case "fractions": .number(Double.random(in: 0..<1, using: &random))
        case "names": .string(Text(String(Int64.random(in: 0..<1 << 40, using: &random), radix: 36)))
        default: .string(Text("a shared beginning \(Int64.random(in: 0..<1 << 40, using: &random))"))
        }
    }

    /// Built of 32 000 children, and after as many writes as there are children, each of which moves one to a
    /// random place.
    @Test(arguments: ["small integers", "times", "fractions", "names", "long texts"])
    func bytesForEachEntry(kind: String) {
        var random = SeededGenerator(seed: 7)
        let count = 32_000
        var ids = PushIDGenerator()
        let keys = (0..<count).map { number in
            ids.next(
                milliseconds: 1_760_000_000_000 + Int64(number), random: .init(high: 0, low: random.next()))
        }
        var tree = Node.object(
            Children(ascending: keys.map { .init(key: $0, node: Self.values(kind, &random)) }))
        var index = OrderedIndex(ordering: tree.children, by: .value)
        index.checkInvariants(of: tree.children)
        let built = Double(index.byteCount) / Double(count)
        // Pages whose words are far apart are not packed: some of names, and of more children fewer.
        #expect(built <= (kind == "names" ? 24.1 : 24), "\(built) bytes for each child")
        for _ in 0..<count {
            let key = keys[Int.random(in: 0..<count, using: &random)]
            let value = Self.values(kind, &random)
            let isRemoved = index.remove(tree[key], key)
            #expect(isRemoved)
            tree.set(value, at: Path([key]))
            index.insert(value, key, in: tree.children)
        }
        index.checkInvariants(of: tree.children)
        let written = Double(index.byteCount) / Double(count)
        #expect(written <= 30, "\(written) bytes for each child")
    }
}

@Suite struct IndexEntriesTests {
    /// Words near to each other and far from each other, and keys with and without texts of their own.
    @Test(arguments: 0..<20) func isAnArrayOfEntries(seed: Int) {
        var random = SeededGenerator(seed: seed)
        let isFar = random.one(in: 2)
        let hasLongKeys = random.one(in: 2)
        func entry() -> IndexEntry {
            let value: Node =
                isFar && random.one(in: 4)
                ? .string(Text("text \(random.next())"))
                : .integer(Int64.random(in: 900...1000, using: &random))
            let number = Int.random(in: 0..<1_000_000, using: &random)
            let key =
                hasLongKeys && random.one(in: 4)
                ? Key(unchecked: Text("a long key with number \(number)")) : Key(index: number)
            return IndexEntry(word: OrderWord(value), key: key)
        }
        func isBefore(_ left: IndexEntry, _ right: IndexEntry) -> Bool {
            left.word != right.word ? left.word < right.word : left.key < right.key
        }
        var model = (0..<Int.random(in: 0...64, using: &random)).map { _ in entry() }.sorted(by: isBefore)
        var entries = IndexEntries(model)
        for step in 0..<300 {
            let copy = (entries, model)
            if !model.isEmpty, random.one(in: 2) {
                let index = model.indices.randomElement(using: &random) ?? 0
                entries.remove(at: index)
                model.remove(at: index)
            } else if model.count < 64 {
                let new = entry()
                let index = model.firstIndex { isBefore(new, $0) } ?? model.count
                entries.insert(new, at: index)
                model.insert(new, at: index)
            }
            for (entries, model) in [(entries, model), copy] {
                #expect(
                    entries.map(\.word) == model.map(\.word) && entries.map(\.key) == model.map(\.key),
                    "seed \(seed), step \(step)")
            }
            #expect(entries.byteCount <= (model.count + 24) * 24 + 56, "free slots are given back")
        }
    }

    @Test func closeWordsArePacked() {
        let entries = (0..<64).map {
            IndexEntry(word: OrderWord(.integer(Int64(1000 + $0))), key: Key(index: $0))
        }
        guard case .packed = IndexEntries(entries) else { Issue.record("not packed"); return }
        let far = IndexEntry(word: OrderWord(.string("text")), key: "a")
        guard case .plain = IndexEntries(entries + [far]) else { Issue.record("packed"); return }
    }
}

@Suite struct KeptIndexTests {
    /// §7.3: without a value, children are in the order of keys.
    @Test(
        arguments: [
            (nil, nil, ["1", "2", "10", "a"], "all"),
            (
                Bound(value: .empty, key: .key("2"), isInclusive: false), nil, ["10", "a"],
                "startAfter(null, 2)"
            ),
            (Bound(value: .boolean(false), key: .lowest, isInclusive: true), nil, [], "a start with a value"),
            (
                nil, Bound(value: .integer(1), key: .lowest, isInclusive: false), ["1", "2", "10", "a"],
                "an end with one"
            ),
            (
                nil, Bound(value: .empty, key: .key("10"), isInclusive: true), ["1", "2", "10"],
                "endAt(null, 10)"
            ),
        ] as [(Bound?, Bound?, [Key], String)])
    func withoutValues(start: Bound?, end: Bound?, keys: [Key], reason: String) throws {
        let tree = try node(#"{"1":1,"2":1,"10":1,"a":1}"#)
        let index = KeptIndex(ordering: tree.children, by: .priority)
        guard case .withoutValues = index else {
            Issue.record("there are no priorities")
            return
        }
        for limit in [nil, Query.Limit(count: 2, anchor: .first), Query.Limit(count: 2, anchor: .last)] {
            let query = Query(order: .priority, start: start, end: end, limit: limit)
            let found = Window(IndexedQuery(query, by: index), over: tree)
            found.checkInvariants()
            #expect(found.entries.map(\.key) == Window(query, over: tree).entries.map(\.key), "\(reason)")
            if limit == nil { #expect(found.entries.map(\.key) == keys, "\(reason)") }
        }
    }

    @Test func firstValueEndsIt() throws {
        let tree = try node(#"{"a":1,"b":{".value":1,".priority":5}}"#)
        var index = KeptIndex.withoutValues(.priority)
        let steps = [
            KeptIndex.ValueChange(key: "a", old: nil, new: .empty), .init(key: "c", old: .empty, new: nil),
            .init(key: "b", old: .empty, new: .integer(5)),
        ].map { index.update([$0], in: tree.children) }
        #expect(steps == [true, true, false])
    }
}
