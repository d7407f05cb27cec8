import PandoBytes
import PandoTree
import Testing

@Suite struct Queries {
    /// The query, and its invalid data.
    private func read(_ json: String) throws -> (Query, InvalidData?) {
        try withCursor(over: Array(json.utf8).rawSpan) { cursor in
            var reader = JSONReader(cursor)
            let query = try Query(reading: &reader)
            try reader.expectEnd()
            return (query, reader.invalidData)
        }
    }

    private func query(_ json: String) throws -> Query {
        let (query, problem) = try read(json)
        #expect(problem == nil, "\(json)")
        return query
    }

    private static func at(_ value: Node, _ key: BoundKey, inclusive: Bool = true) -> Bound {
        Bound(value: value, key: key, isInclusive: inclusive)
    }

    /// realtime §7.2: every call, as each SDK sends it.
    @Test(
        arguments: [
            (["{}", #"{"i":".priority"}"#, #"{"vf":"l"}"#, #"{"unknown":[{}]}"#], Query()),
            ([#"{"i":".key"}"#], Query(order: .key)),
            ([#"{"i":".value"}"#, #"{"i":"/"}"#, #"{"i":""}"#], Query(order: .value)),
            ([#"{"i":"a"}"#, #"{"i":"/a/"}"#], Query(order: .child("a"))),
            ([#"{"i":"a/b"}"#, #"{"i":"a//b"}"#], Query(order: .child("a/b"))),
            // startAt(5)
            (
                [
                    #"{"sp":5,"sin":true}"#, #"{"sp":5}"#, #"{"sp":5.0}"#, #"{"sp":5,"sn":"[MIN_NAME]"}"#,
                    #"{"sp":5,"sn":"[MIN_KEY]","sin":false}"#,
                ], Query(start: at(.integer(5), .lowest))
            ),
            // startAt(5, "k")
            (
                [#"{"sp":5,"sn":"k","sin":true}"#, #"{"sp":5,"sn":"k"}"#],
                Query(start: at(.integer(5), .key("k")))
            ),
            // startAfter(5)
            (
                [
                    #"{"sp":5,"sn":"[MAX_NAME]","sin":false,"i":"n"}"#,
                    #"{"sp":5,"sn":"[MAX_NAME]","i":"n"}"#, #"{"sp":5,"sn":"[MAX_KEY]","i":"n"}"#,
                    #"{"sp":5,"sin":false,"i":"n"}"#,
                ], Query(order: .child("n"), start: at(.integer(5), .highest))
            ),
            // startAfter(5, "k")
            ([#"{"sp":5,"sn":"k","sin":false}"#], Query(start: at(.integer(5), .key("k"), inclusive: false))),
            // orderByKey().startAfter("k")
            (
                [#"{"sp":"k","sin":false,"i":".key"}"#],
                Query(order: .key, start: at(.empty, .key("k"), inclusive: false))
            ),
            (
                [#"{"sp":"abc","sin":false,"l":2,"vf":"l","i":".key"}"#],
                Query(
                    order: .key, start: at(.empty, .key("abc"), inclusive: false),
                    limit: .init(count: 2, anchor: .first))
            ),
            // orderByKey() with the extremes
            (
                [#"{"i":".key","sp":"[MAX_KEY]"}"#, #"{"i":".key","sp":"[MAX_NAME]","sin":false}"#],
                Query(order: .key, start: at(.empty, .highest))
            ),
            (
                [#"{"i":".key","sp":"[MIN_KEY]"}"#, #"{"i":".key","sp":"[MIN_NAME]","sin":false}"#],
                Query(order: .key, start: at(.empty, .lowest))
            ),
            // endAt(5)
            (
                [#"{"ep":5,"ein":true}"#, #"{"ep":5}"#, #"{"ep":5,"en":"[MAX_KEY]"}"#],
                Query(end: at(.integer(5), .highest))
            ),
            // endBefore(5)
            (
                [
                    #"{"ep":5,"en":"[MIN_NAME]","ein":false,"i":"n"}"#,
                    #"{"ep":5,"en":"[MIN_NAME]","i":"n"}"#, #"{"ep":5,"ein":false,"i":"n"}"#,
                ], Query(order: .child("n"), end: at(.integer(5), .lowest))
            ),
            // endBefore(5, "k")
            ([#"{"ep":5,"en":"k","ein":false}"#], Query(end: at(.integer(5), .key("k"), inclusive: false))),
            (
                [#"{"ep":"k","ein":false,"i":".key"}"#],
                Query(order: .key, end: at(.empty, .key("k"), inclusive: false))
            ),
            // equalTo
            (
                [
                    #"{"sp":"a","sin":true,"ep":"a","ein":true,"i":".value"}"#,
                    #"{"sp":"a","ep":"a","i":".value"}"#,
                ], Query(order: .value, start: at(.string("a"), .lowest), end: at(.string("a"), .highest))
            ),
            (
                [#"{"sp":true,"ep":true,"sn":"k","en":"k"}"#],
                Query(start: at(.boolean(true), .key("k")), end: at(.boolean(true), .key("k")))
            ),
            (
                [#"{"sp":null,"ep":null,"i":"x"}"#, #"{"sp":null,"ep":null,"sin":true,"ein":true,"i":"x"}"#],
                Query(order: .child("x"), start: at(.empty, .lowest), end: at(.empty, .highest))
            ),
            (
                [#"{"sp":5,"sin":true,"ep":9,"en":"z","ein":true,"i":"n"}"#],
                Query(order: .child("n"), start: at(.integer(5), .lowest), end: at(.integer(9), .key("z")))
            ),
            // limits
            (
                [#"{"l":3,"vf":"r"}"#, #"{"l":3}"#, #"{"l":3.0}"#],
                Query(limit: .init(count: 3, anchor: .last))
            ),
            ([#"{"l":3,"vf":"l"}"#], Query(limit: .init(count: 3, anchor: .first))),
            (
                [#"{"sp":5,"l":3}"#, #"{"sp":5,"l":3,"vf":"l"}"#],
                Query(start: at(.integer(5), .lowest), limit: .init(count: 3, anchor: .first))
            ),
            (
                [#"{"ep":5,"l":3}"#],
                Query(end: at(.integer(5), .highest), limit: .init(count: 3, anchor: .last))
            ),
            (
                [#"{"sp":null,"l":3}"#],
                Query(start: at(.empty, .lowest), limit: .init(count: 3, anchor: .first))
            ),
            ([#"{"l":2147483647,"vf":"r"}"#], Query(limit: .init(count: 2_147_483_647, anchor: .last))),
            // a key without a value is not a bound
            ([#"{"sn":"k","en":"k","sin":false}"#], Query()),
        ] as [([String], Query)])
    func spellings(spellings: [String], expected: Query) throws {
        for spelling in spellings {
            #expect(try query(spelling) == expected, "\(spelling)")
            #expect(try query(spelling).hashValue == expected.hashValue, "\(spelling)")
        }
    }

    @Test(arguments: [
        (#"{"l":0}"#, "no limit of nothing"), (#"{"l":-1}"#, "nor less"), (#"{"l":2147483648}"#, "too many"),
        (#"{"l":1.5}"#, "a fraction"), (#"{"l":"3"}"#, "no number"), (#"{"l":null}"#, "no number"),
        (#"{"l":true}"#, "no number"), (#"{"l":1e300}"#, "too many"),
        (#"{"l":1,"vf":"x"}"#, "no such end"), (#"{"l":1,"vf":1}"#, "no text"), (#"{"sp":{}}"#, "no leaf"),
        (#"{"sp":[1]}"#, "no leaf"), (#"{"ep":{".value":1}}"#, "no leaf"), (#"{"sp":1,"sn":1}"#, "no text"),
        (#"{"sp":1,"sn":{"a":[]}}"#, "no text"),
        (#"{"sp":1,"sin":"true"}"#, "no boolean"), (#"{"i":1}"#, "no text"),
        (#"{"i":".foo"}"#, "no such index"), (#"{"i":"a/.priority"}"#, "no child"),
        (#"{"i":".info"}"#, "no child"), (#"{"i":"a.b"}"#, "an illegal key"),
        (#"{"i":"$k"}"#, "an illegal key"),
        (#"{"i":".key","sp":5}"#, "keys are text"), (#"{"i":".key","sp":null}"#, "keys are text"),
        (#"{"i":".key","ep":true}"#, "keys are text"), (#"{"sp":1e999}"#, "infinite"),
        (#"{"sp":"\ud800"}"#, "half a character"),
        (#"{"i":"\#(String(repeating: "a/", count: 33))"}"#, "too deep"),
    ])
    func refused(json: String, reason: String) throws {
        #expect(try read(json).1 != nil, "\(reason)")
    }

    @Test(arguments: ["", "[]", "null", "1", #"{"i"}"#, #"{"sp":}"#, #"{"i":".key""#, #"{"l":1,}"#])
    func malformed(json: String) {
        #expect(throws: MalformedJSON.self) { try read(json) }
    }

    /// §7.2: predecessors are not legal keys.
    @Test func boundKeysAreNeverRefused() throws {
        let key = "abb" + String(repeating: "\u{FFFF}", count: 783)
        #expect(try query(#"{"ep":5,"en":"\#(key)"}"#).end?.key == .key(Key(unchecked: Text(key))))
        #expect(try query(#"{"i":".key","ep":"\#(key)"}"#).end?.key == .key(Key(unchecked: Text(key))))
        #expect(try query(#"{"sp":5,"sn":""}"#).start?.key == .key(Key(unchecked: "")))
    }

    /// §7.3: the order of index values.
    @Test func indexValueOrder() throws {
        let ordered = try [
            ["null"], ["false"], ["true"], ["-1e300"], ["-9223372036854775808"], ["-1.5"], ["0", "-0.0"],
            ["0.5"], ["1", "1.0"], ["9007199254740992", "9007199254740993"],
            ["9223372036854775807", "9223372036854775808", "9223372036854775806"], ["1e300"], ["\"\""],
            [#""1""#], [#""a""#], [#""🐵""#], [#""\ue000""#], [#"{"a":1}"#, "[1]", #"{"b":{"c":1}}"#],
        ].map { try $0.map { try node($0) } }
        for (i, lower) in ordered.enumerated() {
            for (j, higher) in ordered.enumerated() {
                for (a, b) in lower.flatMap({ a in higher.map { (a, $0) } }) {
                    #expect(Query.compareIndexValues(a, b).signum() == (i - j).signum(), "\(a) \(b)")
                }
            }
        }
        #expect(
            Priority.compare(nil, .number(-1)) < 0 && Priority.compare(.number(1e9), .string("")) < 0
                && Priority.compare(.string("a"), .string("b")) < 0)
    }
}

/// Queries that differ in the value of a bound alone do not share a hash: clients listen with `startAt(now)`.
@Test
func queriesWithDifferentValuesHaveDifferentHashes() {
    let values: [Node] =
        (0..<1000).map { .number(Double($0)) } + (0..<1000).map { .number(Double($0) + 0.5) }
        + (0..<1000).map { .string(Text("\($0)")) } + [.boolean(false), .boolean(true)]
    let hashes = Set(
        values.map { value in
            Query(start: Bound(value: value, key: .lowest, isInclusive: true)).hashValue
        })
    // 64 bits: two of 3002 are equal once in 10^12 runs.
    #expect(hashes.count == values.count)
}

/// Strings are ordered by their first 64 KiB, which no bound exceeds; behind them by their keys.
@Test func longStringsAreOrderedByTheirBeginning() throws {
    let start = String(repeating: "x", count: Query.orderedByteCount)
    var tree = Node.empty
    for (key, end) in [("a", "z"), ("b", "y"), ("c", ""), ("d", "\u{1}")] {
        tree.set(.string(Text(start + end)), at: Path([Key(unchecked: Text(key))]))
    }
    tree.set(.string(Text(String(start.dropLast()) + "a")), at: Path(["e"]))
    let window = Window(Query(order: .value), over: tree)
    #expect(window.entries.map(\.key.string) == ["e", "a", "b", "c", "d"])
}

/// A query takes long, too, where it compares long texts.
@Test(arguments: [ChildOrder.value, .child("s"), .priority, .key])
func comparedTextsCount(order: ChildOrder) throws {
    func tree(_ byteCount: Int) -> Node {
        let text = Text(String(repeating: "x", count: byteCount))
        var tree = Node.empty
        for index in 0..<10 {
            var child = Node.string(text)
            if order == .child("s") { child = .empty; child.set(.string(text), at: Path(["s"])) }
            if order == .priority { child = Node.boolean(true).with(priority: .string(text)) }
            tree.set(child, at: Path([Key(unchecked: Text("k\(index)"))]))
        }
        return tree
    }
    let query = Query(order: order, limit: .init(count: 3, anchor: .first))
    #expect(!query.visits(moreThan: 10, of: tree(60)))
    #expect(query.visits(moreThan: 10, of: tree(100)) == (order != .key))
    #expect(!query.visits(moreThan: .max, of: tree(100)))
}
