import PandoBytes
import PandoRandom
import PandoTree
import Testing

@Suite struct DataModel {
    /// realtime §8.2 and §8.3: JSON in, export form out.
    @Test(arguments: [
        ("null", "null", "nothing"), ("{}", "null", "nothing"), ("[]", "null", "nothing"),
        ("[[],{},[null]]", "null", "nothing in it"),
        (#"{"a":{"b":{"c":null}},"d":[]}"#, "null", "pruned upwards"),
        ("true", "true", "a leaf"), (#""x""#, #""x""#, "a leaf"), ("[1,2]", #"{"0":1,"1":2}"#, "an array"),
        ("[null,1,null,[null,2]]", #"{"1":1,"3":{"1":2}}"#, "nulls are skipped"),
        (#"{"b":1,"a":2}"#, #"{"a":2,"b":1}"#, "sorted"),
        (#"{"10":1,"9":2,"a":3,"-1":4}"#, #"{"-1":4,"9":2,"10":1,"a":3}"#, "integers first"),
        (#"{"a":1,"b":null,"c":{}}"#, #"{"a":1}"#, "empty ones are pruned"),
        (#"{"a":1,"a":null}"#, "null", "the last of one name"),
        (#"{"a":null,"a":1}"#, #"{"a":1}"#, "the last of one name"),
        (#"{"a":{"b":1},"a":{"c":2}}"#, #"{"a":{"c":2}}"#, "not merged"),
        (#"{"b":1,"a":2,"b":3,"a":4}"#, #"{"a":4,"b":3}"#, "the last of one name"),
        (#"{".priority":1}"#, "null", "nothing has no priority"),
        (#"{".priority":1,"a":null}"#, "null", "nothing has no priority"),
        (#"{".priority":1,"a":2}"#, #"{".priority":1,"a":2}"#, "an object's"),
        (#"{"a":2,".priority":"p"}"#, #"{".priority":"p","a":2}"#, "an object's"),
        (#"{".priority":null,"a":2}"#, #"{"a":2}"#, "none"),
        (#"{".priority":1,".priority":null,"a":2}"#, #"{"a":2}"#, "the last of one name"),
        (#"{".priority":-0.0,"a":2}"#, #"{".priority":0,"a":2}"#, "no negative zero"),
        (#"{".priority":1.0,"a":2}"#, #"{".priority":1,"a":2}"#, "1.0 is 1"),
        (#"{".priority":0.5,".value":2}"#, #"{".value":2,".priority":0.5}"#, "a leaf's"),
        (#"{".value":5}"#, "5", "a leaf"), (#"{".value":5,".priority":null}"#, "5", "no priority"),
        (#"{".value":null}"#, "null", "as if absent"),
        (#"{".value":null,".priority":1}"#, "null", "as if absent"),
        (#"{".value":null,"a":1}"#, #"{"a":1}"#, "as if absent"),
        (#"{".value":5,"a":1}"#, "5", ".value wins"), (#"{"a":1,".value":5}"#, "5", ".value wins"),
        (#"{".value":5,".value":null,"a":1}"#, #"{"a":1}"#, "the last of one name"),
        (
            #"{"a":{".value":true,".priority":""}}"#, #"{"a":{".value":true,".priority":""}}"#,
            "an empty priority is one"
        ), (#"[{".value":1,".priority":2}]"#, #"{"0":{".value":1,".priority":2}}"#, "in an array"),
        (#"{".value":"x",".priority":"\"\n"}"#, #"{".value":"x",".priority":"\"\n"}"#, "escaped"),
        (#"{"\"":"\\"}"#, #"{"\"":"\\"}"#, "escaped"),
        (
            #""\u0000\u001f\u007f\u2028é/""#, "\"\\u0000\\u001f\u{7F}\u{2028}é/\"",
            "only what must be is escaped"
        ),
        (#"{"2":1,"0":1,"1":1}"#, #"{"0":1,"1":1,"2":1}"#, "never an array"),
    ])
    func readAndPrinted(json: String, printed: String, reason: String) throws {
        #expect(try node(json).description == printed, "\(reason)")
        #expect(try node(printed) == (try node(json)), "and read again: \(reason)")
    }

    @Test(
        arguments: [
            (#"{".priority":true,"a":1}"#, .priority, "a boolean"),
            (#"{".priority":{},"a":1}"#, .priority, "an object"),
            (#"{".priority":{"a":1},"a":1}"#, .priority, "an object"),
            (#"{".priority":[],"a":1}"#, .priority, "an array"),
            (#"{".priority":{".value":1},"a":1}"#, .priority, "no leaf in disguise"),
            (#"{".priority":1e999,"a":1}"#, .numberOutOfRange, "infinite"),
            (#"{".value":{}}"#, .value, "an object"), (#"{".value":[1]}"#, .value, "an array"),
            (#"{".value":{".value":1}}"#, .value, "an object"),
            (#"{".value":{".sv":"timestamp","a":1}}"#, .value, "an object"),
            (#"{".x":1}"#, .key(".x"), "an unknown name"), (#"{".":1}"#, .key("."), "an unknown name"),
            (#"{".info":{"connected":true}}"#, .key(".info"), "an unknown name"),
            (#"{"a":{".priority.":1}}"#, .key(".priority."), "an unknown name"),
            (#"{".sv":"TIMESTAMP"}"#, .serverValue, "an unknown one"),
            (#"{".sv":1}"#, .serverValue, "an unknown one"),
            (#"{".sv":null}"#, .serverValue, "an unknown one"),
            (#"{".sv":{}}"#, .serverValue, "an unknown one"),
            (#"{".sv":{"decrement":1}}"#, .serverValue, "an unknown one"),
            (#"{".sv":{"increment":"1"}}"#, .serverValue, "no number"),
            (#"{".sv":{"increment":null}}"#, .serverValue, "no number"),
            (#"{".sv":{"increment":{".sv":"timestamp"}}}"#, .serverValue, "no number"),
            (#"{".sv":{"increment":1,"x":2}}"#, .serverValue, "two operations"),
            (#"{".sv":["timestamp"]}"#, .serverValue, "an array"),
            (#"{".sv":{"increment":1e999}}"#, .numberOutOfRange, "infinite"),
            (#"{".priority":{".sv":"now"},"a":1}"#, .serverValue, "an unknown one"),
            (#"{"a.b":1}"#, .key("a.b"), "an illegal key"), (#"{"a":{"":1}}"#, .key(""), "an empty key"),
            (#"{"a/b":null}"#, .key("a/b"), "an illegal key, whatever its value"),
        ] as [(String, InvalidData, String)])
    func refused(json: String, problem: InvalidData, reason: String) {
        #expect(Parsed(json) == .invalid(problem), "\(reason)")
    }

    /// Of two members with the same name the last one counts, and only its server values.
    @Test(
        arguments: [
            (#"{"a":{".sv":"timestamp"},"a":1}"#, #"{"a":1}"#, []),
            (#"{"a":1,"a":{".sv":"timestamp"}}"#, #"{"a":0}"#, ["a"]),
            (#"{"b":{".sv":"timestamp"},"a":1,"a":{".sv":"timestamp"}}"#, #"{"a":0,"b":0}"#, ["b", "a"]),
            (#"{"a":{".sv":"timestamp"},"a":null}"#, "null", []),
            (
                #"{"a":{"x":{".sv":"timestamp"},"y":{".sv":"timestamp"},"x":3},"a":{"x":{".sv":"timestamp"}}}"#,
                #"{"a":{"x":0}}"#, ["a/x"]
            ),
            (
                #"{"a":{"x":{".sv":"timestamp"},"y":{".sv":"timestamp"},"x":3}}"#, #"{"a":{"x":3,"y":0}}"#,
                ["a/y"]
            ),
            (
                #"{"a":{".value":1,".priority":{".sv":"timestamp"}},"a":{".sv":"timestamp",".priority":{".sv":"timestamp"}}}"#,
                #"{"a":{".value":0,".priority":0}}"#, ["a", "a/.priority"]
            ),
            (
                #"{"a":[{".sv":"timestamp"},{"b":{".sv":"timestamp"}}],"a":[1,{".sv":"timestamp"}]}"#,
                #"{"a":{"0":1,"1":0}}"#, ["a/1"]
            ),
            (
                #"{".priority":{".sv":"timestamp"},"a":{".sv":"timestamp"},"a":1}"#,
                #"{".priority":0,"a":1}"#, [".priority"]
            ),
        ] as [(String, String, [String])])
    func repeatedNames(json: String, stored: String, placeholders: [String]) throws {
        let draft = try draft(json)
        #expect(draft.node.description == stored)
        let places = draft.placeholders.map {
            ($0.target.isPriority ? $0.target.path.appending(".priority") : $0.target.path).wireText
        }
        #expect(places == placeholders)
    }

    /// The draft is printed as it was sent, with its server values.
    @Test(arguments: [
        (#"{".sv":"timestamp"}"#, #"{".sv":"timestamp"}"#),
        (#"{".sv":{"increment":-1.5}}"#, #"{".sv":{"increment":-1.5}}"#),
        (#"{".value":{".sv":"timestamp"}}"#, #"{".sv":"timestamp"}"#),
        (#"{"a":1,"b":null}"#, #"{"a":1}"#),
        (#"{"a":{".sv":"timestamp",".priority":7}}"#, #"{"a":{".priority":7,".sv":"timestamp"}}"#),
        (
            #"{"a":{".value":5,".priority":{".sv":"timestamp"}}}"#,
            #"{"a":{".priority":{".sv":"timestamp"},".value":5}}"#
        ),
        (
            #"{"a":{".sv":{"increment":1},".priority":{".sv":{"increment":2}}}}"#,
            #"{"a":{".priority":{".sv":{"increment":2}},".value":{".sv":{"increment":1}}}}"#
        ),
        (
            #"{"a":{"b":{".sv":"timestamp"},".priority":{".sv":"timestamp"}}}"#,
            #"{"a":{".priority":{".sv":"timestamp"},"b":{".sv":"timestamp"}}}"#
        ),
    ])
    func unresolved(json: String, shown: String) throws {
        #expect(try draft(json).unresolved.description == shown)
    }

    @Test func longStrings() throws {
        let fits = "\"" + String(repeating: "x", count: Limits.stringByteCount) + "\""
        #expect(try node(fits).isLeaf)
        #expect(throws: InvalidData.stringTooLong) { try node("\"x" + fits.dropFirst()) }
    }

    /// The keys that a draft adds to its path: together at most 32.
    @Test(arguments: [
        ("1", 0), ("[]", 0), (#"{"a":1}"#, 1), ("[[[1]]]", 3), (#"{"a":{"b":1},"c":2}"#, 2),
        (#"{"a":{".value":1,".priority":2}}"#, 1),
        (#"{"a":{"b":{".sv":"timestamp"}}}"#, 2), (#"{"a":{"b":{".value":{".sv":"timestamp"}}}}"#, 2),
        (#"{".sv":{"increment":1}}"#, 0), (#"{"a":[{"b":{".sv":{"increment":1}}}]}"#, 3),
    ])
    func depth(json: String, depth: Int) throws {
        #expect(try draft(json).depth == depth)
    }

    /// §8.4: node, path, new value, node afterwards.
    @Test(
        arguments: [
            ("null", "a/b", "1", #"{"a":{"b":1}}"#, "ancestors appear"),
            (#"{"a":5}"#, "a/b", "1", #"{"a":{"b":1}}"#, "a leaf becomes an object"),
            (
                #"{"a":{".value":5,".priority":"p"}}"#, "a/b", "1", #"{"a":{".priority":"p","b":1}}"#,
                "and keeps its priority"
            ),
            (
                #"{".value":5,".priority":"p"}"#, "a/b", "1", #"{".priority":"p","a":{"b":1}}"#,
                "and keeps its priority"
            ),
            (#"{"a":{".priority":1,"b":2}}"#, "a", "3", #"{"a":3}"#, "a put drops the priority"),
            (
                #"{"a":{".priority":1,"b":2}}"#, "a/b", "3", #"{"a":{".priority":1,"b":3}}"#,
                "not that of ancestors"
            ),
            (
                #"{"a":{".priority":1,"b":{"c":1}},"d":1}"#, "a/b/c", "null", #"{"d":1}"#,
                "ancestors vanish with theirs"
            ), (#"{"a":{"b":{"c":1}}}"#, "a/b/c", "null", "null", "up to the root"),
            (#"{".priority":1,"a":1}"#, "a", "null", "null", "the root too"),
            (#"{"a":5}"#, "a/b", "null", #"{"a":5}"#, "null below a leaf"),
            (
                #"{"a":{".value":5,".priority":1}}"#, "a/b/c", "null", #"{"a":{".value":5,".priority":1}}"#,
                "null below a leaf"
            ), (#"{"a":5}"#, "b/c", "null", #"{"a":5}"#, "null below nothing"),
            ("null", "a/b/c", "null", "null", "null below nothing"),
            (#"{"a":{"x":1}}"#, "a/b/c", "null", #"{"a":{"x":1}}"#, "null below nothing"),
            (#"{"a":1}"#, "", "null", "null", "everything"),
            (#"{"a":1}"#, "", #"{".value":1,".priority":2}"#, #"{".value":1,".priority":2}"#, "everything"),
            (#"{"a":{"b":1,"c":2}}"#, "a", #"{"d":1}"#, #"{"a":{"d":1}}"#, "replaced, not merged"),
        ] as [(String, Path, String, String, String)])
    func put(before: String, path: Path, new: String, after: String, reason: String) throws {
        var tree = try node(before)
        let old = tree[path]
        #expect(tree.set(try node(new), at: path) == old, "\(reason)")
        #expect(tree.description == after, "\(reason)")
    }

    @Test(
        arguments: [
            (#"{"a":1}"#, "a", .number(2), #"{"a":{".value":1,".priority":2}}"#, "a leaf's"),
            (#"{"a":{"b":1}}"#, "a", .string("p"), #"{"a":{".priority":"p","b":1}}"#, "an object's"),
            (#"{"a":{".priority":1,"b":1}}"#, "a", nil, #"{"a":{"b":1}}"#, "cleared"),
            (#"{"a":1}"#, "b", .number(1), #"{"a":1}"#, "what is missing stays missing"),
            (#"{"a":1}"#, "a/b", .number(1), #"{"a":1}"#, "below a leaf"),
            ("null", "", .number(1), "null", "nothing"),
            (#"{"a":1}"#, "", .number(1), #"{".priority":1,"a":1}"#, "the root's"),
            (#"{".priority":1,"a":1}"#, "", nil, #"{"a":1}"#, "the root's, cleared"),
        ] as [(String, Path, Priority?, String, String)])
    func putPriority(before: String, path: Path, priority: Priority?, after: String, reason: String) throws {
        var tree = try node(before)
        tree.set(priority: priority, at: path)
        #expect(tree.description == after, "\(reason)")
    }

    /// Random puts against a dictionary of leaves, while there are snapshots.
    @Test(arguments: 0..<10) func puts(seed: Int) {
        var maker = TreeMaker(generator: SeededGenerator(seed: seed))
        maker.priorityRarity = 0
        var tree = Node.empty
        var model: [Path: Node] = [:]
        var snapshots: [(Node, String)] = []
        for _ in 0..<300 {
            let path = maker.path()
            let new = maker.generator.one(in: 3) ? .empty : maker.tree(depth: path.count)
            let isBelowLeaf = (0..<path.count).contains { model[Path(Array(path.keys[..<$0]))] != nil }
            tree.set(new, at: path)
            if !(new.isEmpty && isBelowLeaf) {
                model = model.filter { !path.contains($0.key) && !(!new.isEmpty && $0.key.contains(path)) }
                for (below, leaf) in leaves(of: new) { model[path.appending(below.keys)] = leaf }
            }
            if Dictionary(uniqueKeysWithValues: leaves(of: tree)) != model {
                Issue.record("\(path) = \(new): \(tree)")
            }
            if maker.generator.one(in: 20) { snapshots.append((tree, tree.description)) }
        }
        for (snapshot, description) in snapshots { #expect(snapshot.description == description) }
    }

    private func leaves(of node: Node, at path: Path = .root) -> [(Path, Node)] {
        guard case .object(let children) = node else { return node.isEmpty ? [] : [(path, node)] }
        return children.entries.flatMap { leaves(of: $0.node, at: path.appending($0.key)) }
    }

    /// Large objects that are equal are found equal only if they are the same snapshot.
    @Test func boundedEquality() throws {
        func object(_ count: Int, _ last: String = "1") throws -> Node {
            try node("{" + (1..<count).map { "\"\($0)\":0," }.joined() + #""last":\#(last)}"#)
        }
        for (count, isFound) in [
            (1, true), (Node.comparedNodeLimit, true), (Node.comparedNodeLimit + 1, false),
        ] {
            let one = try object(count)
            #expect(one.isEqualWithinLimit(to: try object(count)) == isFound, "\(count)")
            #expect(one.isEqualWithinLimit(to: one))
            #expect(!one.isEqualWithinLimit(to: try object(count, "2")))
        }
        // The nodes of all levels are counted together.
        let half = Node.comparedNodeLimit / 2
        let nested = try node(#"{"a":0,"b":0}"#)
        var (left, right) = (nested, nested)
        for key in ["a", "b"] as [Path] {
            left.set(try object(half), at: key)
            right.set(try object(half), at: key)
        }
        #expect(left == right && !left.isEqualWithinLimit(to: right))
    }

    /// A KiB of text counts as a node does, and the longest string is compared.
    @Test func boundedEqualityOfTexts() throws {
        func text(_ mebibytes: Int) -> String { "\"" + String(repeating: "x", count: mebibytes << 20) + "\"" }
        for (count, isFound) in [(1, true), (15, true), (17, false)] {
            func texts() throws -> Node {
                try node("{" + (0..<count).map { "\"\($0)\":\(text(1))" }.joined(separator: ",") + "}")
            }
            #expect(try texts().isEqualWithinLimit(to: texts()) == isFound, "\(count)")
        }
        #expect(try node(text(10)).isEqualWithinLimit(to: node(text(10))))
        var root = Node.empty
        root.set(try node(text(10)), at: "a")
        root.set(try node(text(10)), at: "b")
        var left = Node.comparedNodeLimit
        #expect(root.holds(try node(text(10)), at: "a", visiting: &left))
        #expect(!root.holds(try node(text(10)), at: "b", visiting: &left))
    }

    @Test func equality() throws {
        #expect(Node.integer(1) != .boolean(true))
        #expect(try node("1") == (try node("1.0")))
        #expect(try node(#"{".value":1,".priority":1}"#) != (try node("1")))
        #expect(try node(#"{".value":1,".priority":1}"#) == (try node(#"{".value":1,".priority":1.0}"#)))
        #expect(try node(#"{".value":1,".priority":"1"}"#) != (try node(#"{".value":1,".priority":1}"#)))
        #expect(try node(#""é""#) != (try node(#""e\u0301""#)))
    }
}

/// Reads a draft and expects it to be storable.
func draft(_ json: String) throws -> Draft {
    try withCursor(over: Array(json.utf8).rawSpan) { cursor in
        var parser = DraftParser(JSONReader(cursor))
        let draft = try parser.readDraft()
        try parser.reader.expectEnd()
        if let problem = parser.reader.invalidData { throw problem }
        return draft
    }
}

@Suite struct ServerValues {
    /// realtime §10: the node before, the draft, the node afterwards. The time is 1700000000123.
    @Test(arguments: [
        ("null", #"{".sv":"timestamp"}"#, "1700000000123", "the whole value"),
        (
            "null", #"{"a":{".sv":"timestamp"},"b":{"c":{".sv":"timestamp"}}}"#,
            #"{"a":1700000000123,"b":{"c":1700000000123}}"#, "one instant"
        ),
        (
            "null", #"[1,{".sv":"timestamp"},null,{".sv":{"increment":2}}]"#,
            #"{"0":1,"1":1700000000123,"3":2}"#, "in an array"
        ),
        (
            #"["x",7,"y",40]"#, #"[1,{".sv":"timestamp"},null,{".sv":{"increment":2}}]"#,
            #"{"0":1,"1":1700000000123,"3":42}"#, "in an array, over another"
        ),
        ("null", #"{".value":{".sv":"timestamp"}}"#, "1700000000123", "in .value"),
        (
            "5", #"{".value":{".sv":{"increment":1}},".priority":3}"#, #"{".value":6,".priority":3}"#,
            "in .value, with a priority"
        ),
        (
            "null", #"{"a":1,".priority":{".sv":"timestamp"}}"#, #"{".priority":1700000000123,"a":1}"#,
            "as a priority"
        ),
        (
            "null", #"{".value":1,".priority":{".sv":"timestamp"}}"#,
            #"{".value":1,".priority":1700000000123}"#, "as a leaf's priority"
        ),
        (
            "null", #"{".sv":"timestamp",".priority":{".sv":"timestamp"}}"#,
            #"{".value":1700000000123,".priority":1700000000123}"#, "both"
        ), ("null", #"{".priority":{".sv":"timestamp"}}"#, "null", "nothing has no priority"),
        ("null", #"{"a":null,".priority":{".sv":"timestamp"}}"#, "null", "nothing has no priority"),
        (
            "null", #"{"a":{".value":null,".priority":{".sv":"timestamp"}},"b":1}"#, #"{"b":1}"#,
            "nor in an object"
        ),
        ("5", #"{".sv":{"increment":3}}"#, "8", "a number"),
        ("5", #"{".sv":{"increment":-7}}"#, "-2", "down"),
        ("5", #"{".sv":{"increment":0.5}}"#, "5.5", "by a fraction"),
        ("5.5", #"{".sv":{"increment":0.5}}"#, "6", "an integer again"),
        ("null", #"{".sv":{"increment":3}}"#, "3", "absent"),
        ("true", #"{".sv":{"increment":3}}"#, "3", "a boolean"),
        (#""5""#, #"{".sv":{"increment":3}}"#, "3", "a string"),
        (#"{"a":5}"#, #"{".sv":{"increment":3}}"#, "3", "an object"),
        ("[5]", #"{".sv":{"increment":1.5}}"#, "1.5", "an array"),
        (#"{".value":5,".priority":1}"#, #"{".sv":{"increment":3}}"#, "8", "the priority is dropped"),
        (
            #"{".value":5,".priority":1}"#, #"{".sv":{"increment":3},".priority":2}"#,
            #"{".value":8,".priority":2}"#, "or replaced"
        ),
        (
            #"{".value":5,".priority":7}"#, #"{".value":1,".priority":{".sv":{"increment":3}}}"#,
            #"{".value":1,".priority":10}"#, "a priority's base is the priority"
        ),
        (
            #"{".value":5,".priority":"x"}"#, #"{".value":1,".priority":{".sv":{"increment":3}}}"#,
            #"{".value":1,".priority":3}"#, "no number"
        ),
        (
            "5", #"{".value":1,".priority":{".sv":{"increment":3}}}"#, #"{".value":1,".priority":3}"#,
            "no priority"
        ),
        (
            #"{"a":{".priority":1,"b":2}}"#, #"{"a":{"c":1,".priority":{".sv":{"increment":1}}}}"#,
            #"{"a":{".priority":2,"c":1}}"#, "an object's"
        ),
        (
            "9223372036854775807", #"{".sv":{"increment":1}}"#, "9.223372036854775808e18",
            "overflow becomes a double"
        ),
        ("-9223372036854775808", #"{".sv":{"increment":-1}}"#, "-9223372036854775808", "the sum as a double"),
        ("9223372036854775806", #"{".sv":{"increment":1}}"#, "9223372036854775807", "no overflow"),
        ("9007199254740993", #"{".sv":{"increment":2}}"#, "9007199254740995", "integers stay exact"),
        ("9007199254740993", #"{".sv":{"increment":0.5}}"#, "9007199254740992", "doubles do not"),
        (
            "1.7976931348623157e308", #"{".sv":{"increment":1.7976931348623157e308}}"#,
            "1.7976931348623157e308", "infinity is no number: unchanged"
        ),
        ("-0.5", #"{".sv":{"increment":0.5}}"#, "0", "never −0"),
        (
            #"{"a":{"b":5,"c":1}}"#, #"{"a":{"b":{".sv":{"increment":1}}}}"#, #"{"a":{"b":6}}"#,
            "under a subtree that is overwritten"
        ), (#"{"a":5}"#, #"{"a":{"b":{".sv":{"increment":1}}}}"#, #"{"a":{"b":1}}"#, "below an old leaf"),
        (
            #"{"c":5}"#, #"{"c":{".sv":{"increment":3}},"at":{".sv":"timestamp"}}"#,
            #"{"at":1700000000123,"c":8}"#, "the worked example"
        ),
        ("null", #"{"a":{".sv":"timestamp"},".value":7}"#, "7", ".value wins over a placeholder"),
        ("null", #"{".value":7,"a":{"b":{".sv":"timestamp"}}}"#, "7", ".value wins over a placeholder"),
        ("null", #"{".value":7,".sv":"timestamp"}"#, "7", ".value wins over .sv"),
        (
            "null", #"{".sv":"timestamp","a":{".sv":{"increment":1}}}"#, "1700000000123",
            ".sv wins over children"
        ), ("null", #"{".value":{".sv":"timestamp"},".value":7}"#, "7", "the last of one name"),
        ("null", #"{".value":7,".value":{".sv":"timestamp"}}"#, "1700000000123", "the last of one name"),
        (
            "null", #"{"a":1,".priority":{".sv":"timestamp"},".priority":7}"#, #"{".priority":7,"a":1}"#,
            "the last of one name"
        ),
        (
            "null", #"{"a":1,".priority":7,".priority":{".sv":"timestamp"}}"#,
            #"{".priority":1700000000123,"a":1}"#, "the last of one name"
        ),
        (
            "null", #"{"a":1,".priority":{".sv":"timestamp"},".priority":null}"#, #"{"a":1}"#,
            "the last of one name"
        ),
        (
            "null", #"{"z":{".sv":"timestamp"},"a":{".sv":"timestamp"},"m":null}"#,
            #"{"a":1700000000123,"z":1700000000123}"#, "out of order"
        ),
    ])
    func resolution(before: String, json: String, after: String, reason: String) throws {
        let before = try node(before)
        let resolved = try draft(json).resolved(current: before, milliseconds: 1_700_000_000_123)
        #expect(resolved == (try node(after)), "\(reason): \(resolved)")
    }

    @Test func placeholdersAreNotData() {
        #expect(throws: InvalidData.serverValue) { try node(#"{"a":{".sv":"timestamp"}}"#) }
    }

    /// An unresolved placeholder is not empty, so that its ancestors are not removed.
    @Test func placeholdersKeepTheirAncestors() throws {
        let draft = try draft(#"{"a":{"b":{".sv":"timestamp"}},"c":null}"#)
        #expect(draft.node == (try node(#"{"a":{"b":0}}"#)))
        #expect(draft.placeholders == [.init(target: Target("a/b"), value: .timestamp)])
    }
}
