import PandoBytes
import PandoRandom
import Testing

@testable import PandoTree

private func parse(_ json: String) throws -> (query: Query, problem: InvalidData?) {
    let bytes = Array(json.utf8)
    return try withCursor(over: bytes.rawSpan) {
        cursor throws(MalformedJSON) -> (query: Query, problem: InvalidData?) in
        var reader = JSONReader(cursor)
        let query = try Query(reading: &reader)
        return (query, reader.invalidData)
    }
}

/// Values of a field in their order (§7.3), strings by UTF-16 units.
private let ascending = [
    "null", "false", "true", "-1e300", "-2.5", "-2", "-1e-300", "0", "5e-324", "0.1", "1", "2", "10", "1e300",
    #""""#, #""\u0000""#, #""\u0000\u0000""#, #""\u0000\u0001""#, #""\u0001""#, #""A""#, #""AB""#, #""B""#,
    #""a""#,
    #""aé""#, #""🐵""#, #""\uE000""#, #"{"x":1}"#,
]

@Suite struct CompoundValueTests {
    @Test func listsOfValuesCompareAsTheirFieldsDo() throws {
        let values = try ascending.map { try node($0) }
        for (i, a) in values.enumerated() {
            for (j, b) in values.enumerated() {
                for (k, c) in values.enumerated() where k % 3 == 0 {
                    let left = CompoundValue.place(of: [a, c]),
                        right = CompoundValue.place(of: [b, values[(k + 7) % values.count]])
                    let expected = i != j ? i - j : k - (k + 7) % values.count
                    #expect(
                        Query.compareIndexValues(left, right).signum() == expected.signum(), "\(a) \(c), \(b)"
                    )
                    // A beginning is before everything that begins with it, and its end after.
                    let first = CompoundValue.place(of: [a]),
                        last = CompoundValue.place(of: [a], isAfter: true)
                    #expect(Query.compareIndexValues(first, left) < 0)
                    #expect(Query.compareIndexValues(left, last) < 0)
                    if i < j { #expect(Query.compareIndexValues(last, right) < 0) }
                }
            }
        }
    }

    @Test func fieldsAreReadBack() throws {
        let values = try ascending.dropLast().map { try node($0) }
        for a in values {
            for b in values {
                #expect(CompoundValue.fields(of: CompoundValue.place(of: [a, b])) == [a, b])
                #expect(CompoundValue.fields(of: CompoundValue.place(of: [a], isAfter: true)) == [a])
            }
        }
        #expect(CompoundValue.fields(of: .empty).isEmpty)
        for damaged in ["3", "3zz", "4", "4a", "4a\u{0}", "4a\u{0}\u{5}", "5", "x", "3ffffffffffffffff"] {
            #expect(CompoundValue.fields(of: .string(Text(damaged))).isEmpty, "\(damaged)")
        }
    }

    @Test func longStringsAreOrderedByTheirBeginning() {
        let limit = CompoundValue.stringByteCount
        func place(_ text: String) -> Node { CompoundValue.place(of: [.string(Text(text)), .integer(1)]) }
        let exact = String(repeating: "a", count: limit)
        #expect(Query.compareIndexValues(place(exact), place(exact + "b")) < 0)
        #expect(
            Query.compareIndexValues(place(exact + "a"), place(exact + "b")) == 0,
            "what follows does not count")
        #expect(Query.compareIndexValues(place(exact + "z"), place(exact.dropLast() + "b")) < 0)
        // Cut before the character that does not fit as a whole.
        let cut = place(String(repeating: "a", count: limit - 1) + "é")
        guard case .string(let text) = cut else { return #expect(Bool(false)) }
        #expect(Text(validating: Array(text.string.utf8).span) == text)
    }
}

@Suite struct WhereTests {
    /// The same query, spelled in several ways.
    @Test(arguments: [
        [#"{"i":"s","w":{"c":"CH"}}"#, #"{"i":"c=\"CH\"+s"}"#, #"{"i":"c= \"CH\" +s"}"#],
        [
            #"{"i":"s","w":{"b":1,"a":true},"sp":5,"l":2,"vf":"l"}"#,
            #"{"w":{"a":true,"b":1.0},"i":"/s/","sp":5,"l":2,"vf":"l"}"#,
            #"{"i":"a=true+b=1+s","sp":5,"l":2,"vf":"l"}"#,
            #"{"i":"a=true+s","w":{"b":1},"sp":5,"l":2,"vf":"l"}"#,
        ],
        // One field, by key: what equalTo says.
        [
            #"{"w":{"c":"CH"}}"#, #"{"w":{"c":"CH"},"i":".key"}"#, #"{"i":"c","sp":"CH","ep":"CH"}"#,
            #"{"i":"c=\"CH\"+.key"}"#,
        ],
        [
            #"{"w":{"c":1},"i":".key","sp":"k","sin":false}"#,
            #"{"i":"c","sp":1,"sn":"k","sin":false,"ep":1}"#,
        ],
        // Two fields, by key: the second is equal.
        [#"{"w":{"c":1,"d":null}}"#, #"{"w":{"c":1},"i":"d","sp":null,"ep":null}"#],
        // No equality, but a name with the signs.
        [#"{"i":"a+b"}"#], [#"{"i":"a=b+c"}"#], [#"{"i":"=1+c"}"#], [#"{"i":"a=1"}"#], [#"{"i":"a={}+c"}"#],
    ])
    func spellings(_ spellings: [String]) throws {
        let first = try parse(spellings[0])
        for spelling in spellings {
            let (query, problem) = try parse(spelling)
            #expect(problem == nil, "\(spelling): \(String(describing: problem))")
            #expect(query == first.query, "\(spelling)")
        }
    }

    @Test func namesWithoutEqualitiesAreThoseOfChildren() throws {
        for name in ["a+b", "a=b+c", "=1+c", "a=1", "a=1e999+c"] {
            #expect(try parse(#"{"i":"\#(name)"}"#).query.order == .child(Path(trusted: name)))
        }
    }

    @Test(arguments: [
        #"{"w":[],"i":"s"}"#, #"{"w":5,"i":"s"}"#, #"{"w":{"c":{}},"i":"s"}"#, #"{"w":{"c":[1]},"i":"s"}"#,
        #"{"w":{"":1},"i":"s"}"#, #"{"w":{"/":1},"i":"s"}"#, #"{"w":{"a.b":1},"i":"s"}"#,
        #"{"w":{"s":1},"i":"s"}"#,
        #"{"w":{"a":1,"/a":1},"i":"s"}"#, #"{"w":{"a":1},"i":".value"}"#, #"{"w":{"a":1},"i":".priority"}"#,
        #"{"w":{"a":1,"b":1,"c":1,"d":1},"i":"s"}"#, #"{"w":{"a":1,"b":1,"c":1,"d":1,"e":1}}"#,
        #"{"i":"a=1+a=1+s"}"#, #"{"i":"a=1+"}"#, #"{"i":"a=1+b=1+c=1+d=1+e=1+s"}"#,
        #"{"w":{"a":1e999},"i":"s"}"#,
    ])
    func invalid(_ spelling: String) throws {
        #expect(try parse(spelling).problem != nil, "\(spelling)")
    }

    @Test func aStringOfWhereHasALimit() throws {
        for (count, isValid) in [
            (CompoundValue.stringByteCount, true), (CompoundValue.stringByteCount + 1, false),
        ] {
            let text = String(repeating: "x", count: count)
            #expect(try parse(#"{"i":"s","w":{"c":"\#(text)"}}"#).problem == nil ? isValid : !isValid)
        }
    }

    @Test func valuesOfQueriesAreReadBack() throws {
        let (found, _) = try parse(#"{"i":"s","w":{"b":"x","a":2},"sp":5,"ep":"z","en":"k"}"#)
        #expect(found.order == .compound(["a", "b", "s"]))
        #expect(found.order.declaredName == "a+b+s")
        #expect(found.equalValues == [.integer(2), .string("x")])
        #expect(found.lastValue(of: found.start) == .integer(5))
        #expect(found.lastValue(of: found.end) == .string("z"))
        let (open, _) = try parse(#"{"i":"s","w":{"b":"x","a":2}}"#)
        #expect(open.lastValue(of: open.start) == nil)
        #expect(open.lastValue(of: open.end) == nil)
    }

    /// Random objects and queries against the definition: those with equal fields, then in the order of the
    /// last one.
    @Test(arguments: [1, 2, 3] as [UInt64])
    func windowsAreThoseOfANaiveModel(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        func value() throws -> Node { try node(ascending.randomElement(using: &random)!) }
        for _ in 0..<60 {
            var children: [(key: Key, node: Node)] = []
            for number in 0..<Int.random(in: 0..<60, using: &random) {
                var child = Node.object(Children(ascending: [.init(key: "z", node: .boolean(true))]))
                for field in ["a", "b", "s"] where Bool.random(using: &random) {
                    child.set(
                        Bool.random(using: &random)
                            ? .integer(.random(in: 0..<3, using: &random)) : try value(),
                        at: Path(trusted: field))
                }
                children.append((Key(index: number), child))
            }
            let object = Node.children(
                Children(ascending: children.map { Children.Entry(key: $0.key, node: $0.node) }))
            let fields: [Path] = Bool.random(using: &random) ? ["a"] : ["b", "a"]
            let values = fields.map { _ in Node.integer(.random(in: 0..<3, using: &random)) }
            let low = Bool.random(using: &random) ? try value() : nil
            let high = Bool.random(using: &random) ? try value() : nil
            let limit = Bool.random(using: &random) ? Int.random(in: 1..<6, using: &random) : nil
            // Objects are no bounds.
            if case .object? = low { continue }
            if case .object? = high { continue }
            var simple = Query(order: .child("s"))
            simple.start = low.map { Bound(value: $0, key: .lowest, isInclusive: true) }
            simple.end = high.map { Bound(value: $0, key: .highest, isInclusive: true) }
            var expected = children.filter { child in
                zip(fields, values).allSatisfy { child.node[$0] == $1 }
                    && simple.contains(value: simple.indexValue(of: child.node), key: child.key)
            }
            expected.sort {
                simple.compare(
                    (simple.indexValue(of: $0.node), $0.key), (simple.indexValue(of: $1.node), $1.key)) < 0
            }
            var query = simple
            try query.restrict(to: zip(fields, values).map { try Query.Equality(field: $0, value: $1) })
            if let limit {
                query.limit = Query.Limit(count: limit, anchor: .last)
                expected = expected.suffix(limit)
            }
            let index = KeptIndex(ordering: object.children, by: query.order)
            index.checkInvariants(of: object.children)
            for window in [Window(query, over: object), Window(IndexedQuery(query, by: index), over: object)]
            {
                window.checkInvariants()
                #expect(window.entries.map(\.key) == expected.map(\.key), "seed \(seed): \(query)")
            }
        }
    }
}
