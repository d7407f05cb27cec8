import PandoBytes
import PandoRandom
import Testing

@testable import PandoTree

/// A sum by long addition of decimal digits would not do for doubles, so the model adds bits: a number is a
/// list of its set bits' exponents, with a sign.
private struct NaiveSum {
    /// Multiples of 2^(index − 1100), not normalised.
    private var bits = [Int](repeating: 0, count: 2300)

    mutating func add(_ number: Node) {
        switch number {
        case .integer(let value): add(value.magnitude, 0, value < 0 ? -1 : 1)
        case .double(let value):
            add(UInt64(value.magnitude.significand * 0x1p52), Int(value.exponent) - 52, value < 0 ? -1 : 1)
        default: break
        }
    }

    private mutating func add(_ magnitude: UInt64, _ exponent: Int, _ sign: Int) {
        for bit in 0..<64 where magnitude >> UInt64(bit) & 1 == 1 { bits[exponent + bit + 1100] += sign }
    }

    var value: Node? { divided(by: 1) }

    /// The nearest double by the definition: bits are compared, not rounded by arithmetic.
    func divided(by divisor: Int) -> Node? {
        var bits = bits
        func carry() {
            for index in 0..<(bits.count - 1) {
                let digit = ((bits[index] % 2) + 2) % 2
                bits[index + 1] += (bits[index] - digit) / 2
                bits[index] = digit
            }
        }
        carry()
        let isNegative = bits[bits.count - 1] < 0
        if isNegative {
            bits = self.bits.map { -$0 }
            carry()
        }
        // Long division, bit by bit; there are 26 bits below the lowest one of a double.
        var remainder = 0
        for index in bits.indices.reversed() {
            remainder = 2 * remainder + bits[index]
            bits[index] = remainder >= divisor ? 1 : 0
            if remainder >= divisor { remainder -= divisor }
        }
        guard let top = bits.lastIndex(of: 1) else { return .integer(0) }
        if remainder == 0, bits.firstIndex(of: 1)! >= 1100 {
            var integer: Int128 = 0
            if top - 1100 < 64 {
                for index in 1100...top where bits[index] == 1 { integer |= 1 << Int128(index - 1100) }
                if let exact = Int64(exactly: isNegative ? -integer : integer) { return .integer(exact) }
            }
        }
        let lowest = max(top - 52, 1100 - 1074)
        var significand: UInt64 = 0
        for index in stride(from: top, through: lowest, by: -1) {
            significand = significand << 1 | UInt64(bits[index])
        }
        let isMoreThanHalf = remainder > 0 || bits[..<(lowest - 1)].contains(1)
        if bits[lowest - 1] == 1, significand & 1 == 1 || isMoreThanHalf { significand += 1 }
        let value = Double(sign: .plus, exponent: lowest - 1100, significand: Double(significand))
        guard value.isFinite else { return nil }
        return .number(isNegative ? -value : value)
    }
}

@Suite struct ExactSumTests {
    private func sum(_ numbers: [Node]) -> Node? {
        var sum = ExactSum()
        for number in numbers { sum.add(number) }
        return sum.value
    }

    @Test(
        arguments: [
            // numbers                                       sum                        because
            ([], "0", "of nothing"),
            (
                ["0.1", "0.2"], "0.30000000000000004",
                "0.1 and 0.2 are not exact; their exact sum is rounded to this"
            ),
            (["0.1", "0.2", "0.3", "0.4"], "1", "in doubles, from the left, too"),
            (["1e16", "1", "-1e16"], "1", "doubles would lose the 1"),
            (["1e300", "1", "-1e300"], "1", "at any distance"),
            (["1e300", "1e-300", "-1e300"], "1e-300", "and in the other direction"),
            (["9007199254740993", "1"], "9007199254740994", "integers are not rounded to doubles"),
            (["9223372036854775807", "-9223372036854775808"], "-1", "the ends of integers"),
            (["9223372036854775807"], "9223372036854775807", "fits"),
            (["9223372036854775807", "1"], "9223372036854775808", "the nearest double of 2^63"),
            (
                ["9223372036854775807", "1", "-2"], "9223372036854775806",
                "a sum may leave the range and come back"
            ),
            (["-9223372036854775808"], "-9223372036854775808", "fits"),
            (
                ["-9223372036854775808", "-1"], "-9223372036854775808",
                "the nearest double, which is an integer"
            ),
            (["0.5", "0.5"], "1", "an integer, as it is stored (§8.5)"),
            (["5e-324", "5e-324"], "1e-323", "subnormal numbers"),
            (
                ["2.2250738585072014e-308", "-5e-324"], "2.225073858507201e-308",
                "the greatest subnormal number"
            ),
            (["1.7976931348623157e308", "1.7976931348623157e308"], nil, "beyond the range of doubles"),
            (
                ["1.7976931348623157e308", "1.7976931348623157e308", "-1.7976931348623157e308"],
                "1.7976931348623157e308", "and back"
            ),
            (
                ["1.7976931348623157e308", "9.9792015476735990582818635651842e291"], nil,
                "half of the last place: to even, which is infinite"
            ),
            (
                ["1.7976931348623157e308", "9.979201547673598e291"], "1.7976931348623157e308",
                "less than half of it"
            ),
            (["9007199254740992", "0.5"], "9007199254740992", "half of the last place: to even"),
            (["9007199254740992", "1.5"], "9007199254740994", "more than half"),
            (["-0.1", "0.1"], "0", "nothing is left"),
        ] as [([String], String?, String)])
    func sums(numbers: [String], expected: String?, reason: String) throws {
        let nodes = try numbers.map { try node($0) }
        let wanted = try expected.map { try node($0) }
        #expect(sum(nodes)?.doubleValue == wanted?.doubleValue, "\(reason)")
        if case .integer? = wanted { #expect(sum(nodes) == wanted, "\(reason)") }
        #expect(sum(nodes.reversed()) == sum(nodes), "in any order")
    }

    @Test(
        arguments: [
            // numbers                                       average                    because
            (
                ["9007199254740993", "9007199254740993", "9007199254740993"], "9007199254740993",
                "an integer is not rounded to a double"
            ),
            (
                ["-9007199254740993", "-9007199254740993", "-9007199254740993"], "-9007199254740993",
                "a negative one neither"
            ),
            (
                ["9223372036854775807", "9223372036854775807", "9223372036854775807"], "9223372036854775807",
                "a sum of more than 64 bits"
            ),
            (["0.1", "0.1", "0.1"], "0.1", "the sum of doubles is not rounded before"),
            (["1", "2"], "1.5", "a fraction"),
            (["-1", "-2"], "-1.5", "a negative one"),
            (["1", "0", "0"], "0.3333333333333333", "the nearest double"),
            (
                ["4503599627370496", "4503599627370497"], "4503599627370496",
                "half of the last place: to even"
            ),
            (["4503599627370497", "4503599627370498"], "4503599627370498", "to even, upwards"),
            (["9007199254740994", "9007199254740995"], "9007199254740994", "below half"),
            (["9007199254740995", "9007199254740996"], "9007199254740996", "above half"),
            (
                ["1.7976931348623157e308", "1.7976931348623157e308"], "1.7976931348623157e308",
                "the sum is beyond the range of doubles"
            ),
            (["5e-324", "0"], "0", "half of the least double: to even"),
            (["1e-323", "5e-324"], "1e-323", "one and a half of it: to even"),
            (["5e-324", "5e-324", "0"], "5e-324", "more than half"),
            (["0", "0", "0"], "0", "of nothing but 0"),
        ] as [([String], String, String)])
    func averages(numbers: [String], expected: String, reason: String) throws {
        var sum = ExactSum()
        for number in numbers { sum.add(try node(number)) }
        #expect(sum.divided(by: numbers.count) == (try node(expected)), "\(reason)")
    }

    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func sumsAreThoseOfANaiveModel(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        func number() -> Node {
            switch Int.random(in: 0..<6, using: &random) {
            case 0: .integer(.random(in: .min ... .max, using: &random))
            case 1: .integer(.random(in: -5...5, using: &random))
            case 2: .number((Double.random(in: -1e4...1e4, using: &random) * 100).rounded() / 100)
            case 3:
                .number(
                    Double(bitPattern: .random(in: 0..<0x7FF0_0000_0000_0000, using: &random))
                        * (Bool.random(using: &random) ? 1 : -1))
            case 4: .number(Double(bitPattern: .random(in: 0..<0x0030_0000_0000_0000, using: &random)))
            default: .number(Double.random(in: -1...1, using: &random) * 0x1p53)
            }
        }
        for round in 0..<50 {
            let numbers = (0..<Int.random(in: 1..<30, using: &random)).map { _ in number() }
            var naive = NaiveSum()
            var parts = (0..<4).map { _ in ExactSum() }
            for number in numbers {
                naive.add(number)
                parts[Int.random(in: 0..<4, using: &random)].add(number)
            }
            var whole = ExactSum()
            for part in parts.shuffled(using: &random) { whole.add(part) }
            #expect(whole.value == naive.value, "seed \(seed), round \(round): \(numbers)")
            for divisor in [numbers.count, .random(in: 2...0xFFFF_FFFF, using: &random)] {
                #expect(
                    whole.divided(by: divisor) == naive.divided(by: divisor),
                    "seed \(seed), round \(round): \(numbers) by \(divisor)")
            }
        }
    }
}

@Suite struct AggregateParserTests {
    @Test(arguments: [
        "count", "sum(a)", "avg(a/b)", "min($value)", "max(/a/)", "sum(a,b)", "sum(a(b))", "sum(é)",
    ])
    func valid(text: String) throws {
        #expect(try Aggregate(Text(text)).name.string == text)
    }

    @Test(arguments: [
        "", "Count", "count()", "count(a)", "sum", "sum(", "sum)", "sum()", "sum(/)", "total(a)", "sum(a) ",
        " sum(a)", "sum(a.b)", "sum($x)",
        "(a)", "sum(\(String(repeating: "x", count: 252)))",
    ])
    func invalid(text: String) { #expect(throws: InvalidData.self) { try Aggregate(Text(text)) } }

    @Test func countsAreBounded() throws {
        func query(_ names: [String]) throws -> Query { try Query().aggregating(names.map { Text($0) }) }
        #expect(throws: InvalidData.self) { try query([]) }
        #expect(throws: InvalidData.self) { try query((0...Aggregate.countLimit).map { "sum(f\($0))" }) }
        let most = try query((0..<Aggregate.countLimit).map { "sum(f\($0))" })
        #expect(most.aggregatedFields.count == Aggregate.countLimit)
        #expect(
            try query(["sum(a)", "count", "sum(a)"]) == query(["count", "sum(a)"]),
            "order and repetition do not matter")
        #expect(try query(["count"]) != Query(order: .key))
        #expect(try query(["count"]).withoutAggregates == nil, "a plain read")
    }
}

/// The result by the definition.
private func naive(_ query: Query, over node: Node) -> Node {
    var plain = query
    plain.aggregates = []
    let selected =
        plain.loadsAllData ? node.children.forEachNode() : Window(plain, over: node).entries.map(\.node)
    var entries: [Children.Entry] = []
    for aggregate in query.aggregates {
        let numbers = selected.map { aggregate.field?.value(of: $0) ?? .empty }.filter(\.isNumber)
        var sum = NaiveSum()
        for number in numbers { sum.add(number) }
        let sorted = numbers.sorted { $0.doubleValue! < $1.doubleValue! }
        let value: Node? =
            switch aggregate.function {
            case .count: .integer(Int64(selected.count))
            case .sum: sum.value
            case .average:
                numbers.isEmpty ? nil : sum.divided(by: numbers.count)
            case .minimum: sorted.first
            case .maximum: sorted.last
            }
        if let value { entries.append(.init(key: aggregate.name, node: value)) }
    }
    return .children(Children(ascending: entries))
}

extension Children {
    fileprivate func forEachNode() -> [Node] {
        var nodes: [Node] = []
        forEach { _, node in
            nodes.append(node)
            return true
        }
        return nodes
    }
}

@Suite struct MeasuredIndexTests {
    private static let names: [Text] = [
        "count", "sum(p)", "avg(p)", "min(p)", "max(p)", "sum($value)", "max(d/e)",
    ]

    private static func child(_ random: inout SeededGenerator) -> Node {
        if random.one(in: 10) { return .integer(.random(in: 0..<5, using: &random)) }
        var child = Node.empty
        child.set(.boolean(true), at: "z")
        if !random.one(in: 5) { child.set(.integer(.random(in: 0..<40, using: &random)), at: "s") }
        switch Int.random(in: 0..<5, using: &random) {
        case 0: child.set(.string("12"), at: "p")
        case 1: break
        case 2:
            child.set(
                .integer(.random(in: -9_007_199_254_740_993...9_007_199_254_740_993, using: &random)), at: "p"
            )
        default: child.set(.number(Double(Int.random(in: -500..<500, using: &random)) / 100), at: "p")
        }
        if random.one(in: 3) { child.set(.number(Double.random(in: 0..<1, using: &random)), at: "d/e") }
        return child
    }

    private static func query(_ random: inout SeededGenerator) throws -> Query {
        var query = Query(order: random.pick([.key, .child("s"), .child("p"), .value, .priority]))
        func bound(_ isStart: Bool) -> Bound {
            let isInclusive = Bool.random(using: &random)
            guard query.order != .key else {
                return Bound(
                    value: .empty, key: .key(Key(index: .random(in: 0..<900, using: &random))),
                    isInclusive: isInclusive)
            }
            return Bound(
                value: .integer(.random(in: -5..<40, using: &random)),
                key: random.pick([.lowest, .highest, .key(Key(index: .random(in: 0..<900, using: &random)))]),
                isInclusive: isInclusive)
        }
        if random.one(in: 2) { query.start = bound(true) }
        if random.one(in: 2) { query.end = bound(false) }
        if random.one(in: 3) {
            query.limit = .init(
                count: .random(in: 1..<400, using: &random), anchor: random.pick([.first, .last]))
        }
        return try query.aggregating(names.filter { _ in !random.one(in: 3) } + ["count"])
    }

    /// Random writes, followed by plain and measured indexes; after each, random queries are answered alike
    /// with and without them.
    @Test(arguments: [1, 2] as [UInt64])
    func resultsDoNotDependOnIndexes(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var tree = Node.empty
        for number in 0..<700 { tree.set(Self.child(&random), at: Path([Key(index: number)])) }
        let orders: [ChildOrder] = [.key, .child("s"), .child("p"), .value, .priority]
        let fields: [ChildOrder] = [.child("p"), .value, .child("d/e")]
        func build() -> [KeptIndex] {
            orders.flatMap { order in
                [KeptIndex(ordering: tree.children, by: order)]
                    + fields.map { KeptIndex(ordering: tree.children, by: order, measuring: $0) }
            }
        }
        var indexes = build()
        for step in 0..<20 {
            let before = tree
            var keys: Set<Key> = []
            for _ in 0..<random.pick([1, 1, 1, 3, 40]) {
                let key = Key(index: .random(in: 0..<900, using: &random))
                keys.insert(key)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: tree.set(.empty, at: Path([key]))
                case 1: tree.set(.number(Double.random(in: -9...9, using: &random)), at: Path([key, "p"]))
                default: tree.set(Self.child(&random), at: Path([key]))
                }
            }
            for place in indexes.indices {
                let (order, measure) = (indexes[place].order, indexes[place].measure)
                func placed(_ node: Node) -> Node? { node.isEmpty ? nil : order.value(of: node) }
                let changes = keys.sorted().map { key in
                    KeptIndex.ValueChange(
                        key: key, old: placed(before[key]), new: placed(tree[key]),
                        oldNumber: measure?.number(of: before[key]) ?? .empty,
                        newNumber: measure?.number(of: tree[key]) ?? .empty)
                }
                if !indexes[place].update(changes, in: tree.children) {
                    indexes[place] = KeptIndex(ordering: tree.children, by: order, measuring: measure)
                }
                indexes[place].checkInvariants(of: tree.children)
            }
            for _ in 0..<4 {
                let query = try Self.query(&random)
                let expected = naive(query, over: tree)
                let plain = indexes.first {
                    $0.order == query.order && $0.measure == nil && query.order != .key
                }
                let measured = query.aggregatedFields.map { field in
                    indexes.first { $0.order == query.order && $0.measure == field }
                }
                let all = IndexedQuery(query, by: plain, measured: measured)
                #expect(!all.visits(moreThan: 0, of: tree), "nothing is visited")
                for indexed in [all, IndexedQuery(query), IndexedQuery(query, by: plain)] {
                    #expect(indexed.result(over: tree) == expected, "seed \(seed), step \(step): \(query)")
                }
            }
        }
    }

    @Test func aSnapshotKeepsItsSummaries() {
        var tree = Node.empty
        for number in 0..<2000 { tree.set(.integer(Int64(number)), at: Path([Key(index: number), "p"])) }
        var index = KeptIndex(ordering: tree.children, by: .child("p"), measuring: .child("p"))
        let (snapshot, old) = (tree, index)
        for number in 0..<2000 where number % 3 == 0 {
            let key = Key(index: number)
            let change = KeptIndex.ValueChange(
                key: key, old: .integer(Int64(number)), new: nil, oldNumber: .integer(Int64(number)))
            tree.set(.empty, at: Path([key]))
            let isRight = index.update(CollectionOfOne(change), in: tree.children)
            #expect(isRight)
        }
        old.checkInvariants(of: snapshot.children)
        index.checkInvariants(of: tree.children)
    }

    /// Counts what is looked at: a range of any length takes the summaries of some pages on each level, and
    /// the numbers of at most two pages.
    @Test func workGrowsWithTheLogarithm() {
        var visited: [Int] = []
        for count in [1000, 10_000, 100_000] {
            var entries: [Children.Entry] = []
            for number in 0..<count {
                entries.append(.init(key: Key(index: number), node: .integer(Int64(number))))
            }
            let children = Children(ascending: entries)
            let index = OrderedIndex(ordering: children, by: .value, measuring: .value)
            var most = 0
            for low in stride(from: 0, to: count / 2, by: count / 20 + 1) {
                var visits = 0
                let summary = index.summary(of: low..<(count - low), in: children, counting: &visits)
                #expect(summary.count == count - 2 * low)
                most = max(most, visits)
            }
            visited.append(most)
        }
        // Two pages of numbers, and twice 64 summaries for each level above.
        for (level, visits) in visited.enumerated() { #expect(visits <= 128 * (level + 2), "\(visited)") }
    }

    @Test func entryTakes24Bytes() {
        #expect(MemoryLayout<IndexEntry>.stride == 24, "24 bytes an entry")
        #expect(MemoryLayout<OrderedIndex.Ref>.stride <= 72)
    }
}
