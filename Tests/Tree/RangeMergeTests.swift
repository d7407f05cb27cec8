import PandoBytes
import PandoRandom
import Testing

@testable import PandoTree

@Suite struct CompoundHashVectors {
    /// realtime §9.6: node, ends of ranges, the text of each closed range, its hash.
    @Test(
        arguments: [
            (#"{"foo":"bar"}"#, ["foo"], [#"("foo":(string:"bar"))"#], ["LmKmJmXugtGlEGoulMbz86myDNw="]),
            (
                #"{"foo":{"!beforePriority":"before",".priority":"prio","afterPriority":"after"},"qux":"qux"}"#,
                ["foo/.priority", "qux"],
                [
                    #"("foo":("!beforePriority":(string:"before"),".priority":(string:"prio")))"#,
                    #"("foo":("afterPriority":(string:"after")),"qux":(string:"qux"))"#,
                ], ["TNHQ1ppp/lp/iP3WA1GOUetV77U=", "eRF6PqPUdLcnQ/J24B4ofNFSH64="]
            ),
            (
                #"{"foo":{".value":"bar",".priority":"baz"}}"#, ["foo"],
                [#"("foo":(priority:string:"baz":string:"bar"))"#], ["Pg7xV/cwDhcX65Z5lEn4rKdDmX0="]
            ),
            (
                #"{"1":"one","2":"two","10":"ten"}"#, ["2", "10"],
                [#"("1":(string:"one"),"2":(string:"two"))"#, #"("10":(string:"ten"))"#],
                ["YkodEihR5l3UXCbbKSqqVp082GU=", "pfduDpANk3ljVHkUt4HdLwrlDao="]
            ),
            (
                #"{"bar":{"deep":"value"},"foo":{"other-deep":"value"}}"#, ["bar/deep", "foo/other-deep"],
                [#"("bar":("deep":(string:"value")))"#, #"("foo":("other-deep":(string:"value")))"#],
                ["Nq6PLLUyjPbRcyM3tpvqXJ5Dzm8=", "YRXpspSj3AnV90ZFjfGLH9lHAp8="]
            ),
            (
                #"{"bar":{"deep":"value"},"foo":{"other-deep":"value"}}"#, ["foo/other-deep"],
                [#"("bar":("deep":(string:"value")),"foo":("other-deep":(string:"value")))"#],
                ["0Sio+izRDomUl6XRo4LRM8qfsog="]
            ),
            (
                #"{"\"":"\\","\"\\\"\\":"\"\\\"\\"}"#, [#""\"\"#],
                [#"("\"":(string:"\\"),"\"\\\"\\":(string:"\"\\\"\\"))"#], ["IMLSPGVfdnaX4ZxWRGflEMmGTUI="]
            ),
            (
                #"{"a":{"x":1,"y":2},"b":3,"c":true}"#, ["a/x", "b", "c"],
                [
                    #"("a":("x":(number:3ff0000000000000)))"#,
                    #"("a":("y":(number:4000000000000000)),"b":(number:4008000000000000))"#,
                    #"("c":(boolean:true))"#,
                ],
                [
                    "1MrbPrFkag36VJVl+ntcevAS2SE=", "JMnRPWk33XtFz0LAOZyKCha8Ud4=",
                    "uN9kX2WabmSrTfAbQzJw3M6byr8=",
                ]
            ),
            (#""leaf""#, ["/"], [#"(string:"leaf")"#], ["VzY3K/KprOmpGGrk0qFm5kfIo0I="]),
            (
                #"{"-Kabc":1,".priority":5}"#, ["-Kabc"], [#"("-Kabc":(number:3ff0000000000000))"#],
                ["l5Vz8kVYkShz8xCXzSc43n0t/bE="]
            ),
            ("null", [], [], []),
        ] as [(String, [Path], [String], [String])])
    func vector(json: String, cuts: [Path], texts: [String], hashes: [String]) throws {
        let claim = CompoundHash(paths: cuts, hashes: hashes.map { Text($0) } + [""])
        let hasher = RangeHasher(try node(json), against: claim, keepsTexts: true)
        #expect(hasher.texts == texts + [""])
        #expect(!hasher.differs.contains(true))
        #expect(try node(json).rangeMerges(against: claim) == [])
        // The model of a client, on which the property tests depend, agrees.
        let builder = CompoundHashBuilder(try node(json)) { cuts.contains($0) }
        #expect(builder.texts == texts)
        #expect(builder.claim == claim)
    }

    @Test func longRangesAreHashedInPieces() throws {
        let node = Node.object(
            Children(ascending: (0..<5000).map { .init(key: Key(index: $0), node: .integer(Int64($0))) }))
        let claim = CompoundHashBuilder(node) { $0 == "2000" }.claim
        #expect(claim.paths.count == 2)
        #expect(node.rangeMerges(against: claim) == [])
    }
}

@Suite struct CompoundHashReading {
    private func read(_ json: String) throws -> CompoundHash {
        try withCursor(over: Array(json.utf8).rawSpan) { cursor in
            var reader = JSONReader(cursor)
            let claim = try CompoundHash(reading: &reader)
            try reader.expectEnd()
            #expect(reader.invalidData == nil)
            return claim
        }
    }

    @Test func reads() throws {
        let claim = try read(#" { "hs" : ["A", "B" , ""], "x": [{}], "ps":["a/.priority","/b//c/"]} "#)
        #expect(claim == CompoundHash(paths: ["a/.priority", "b/c"], hashes: ["A", "B", ""]))
        #expect(try read(#"{"hs":["A",""],"ps":["/"]}"#) == CompoundHash(paths: [.root], hashes: ["A", ""]))
        #expect(try read(#"{"ps":[],"hs":[""]}"#) == CompoundHash(paths: [], hashes: [""]))
    }

    /// A listen with an unusable hash is a valid listen: it gets the complete node.
    @Test(arguments: [
        ("1", "no object"), ("null", "no object"), (#""x""#, "no object"), ("[[]]", "no object"),
        ("{}", "nothing in it"),
        (#"{"ps":[]}"#, "no hashes"), (#"{"hs":[""]}"#, "no paths"),
        (#"{"ps":[],"hs":[]}"#, "one hash too few"), (#"{"ps":["a"],"hs":["A"]}"#, "one hash too few"),
        (#"{"ps":[],"hs":["",""]}"#, "one hash too many"),
        (#"{"ps":{"0":"a"},"hs":["",""]}"#, "paths are no array"),
        (#"{"ps":"a","hs":["",""]}"#, "paths are no array"),
        (#"{"ps":[1],"hs":["",""]}"#, "a path is no text"),
        (#"{"ps":["a"],"hs":["",null]}"#, "a hash is no text"),
        (#"{"ps":["a",[{"b":[]}]],"hs":["","",""]}"#, "a path is no text"),
        (#"{"ps":["b","a"],"hs":["","",""]}"#, "paths descend"),
        (#"{"ps":["a","a"],"hs":["","",""]}"#, "a path twice"),
        (#"{"ps":["10","9"],"hs":["","",""]}"#, "integers descend"),
        (#"{"ps":["a/b","a"],"hs":["","",""]}"#, "a path after what lies below it"),
        (#"{"ps":["\#(String(repeating: "a/", count: 34))"],"hs":["",""]}"#, "deeper than any leaf"),
    ])
    func unusable(json: String, reason: String) throws {
        let claim = try read(json)
        #expect(!claim.isUsable, "\(reason)")
        #expect(try node(#"{"a":1}"#).rangeMerges(against: claim) == nil, "\(reason)")
        #expect(Node.empty.rangeMerges(against: claim) == nil, "\(reason)")
    }

    @Test func hugeCompoundHashIsUnusable() throws {
        let paths = (0..<70_000).map { "\"\($0)\"" }.joined(separator: ",")
        let hashes = (0...70_000).map { _ in "\"\"" }.joined(separator: ",")
        #expect(!(try read(#"{"ps":[\#(paths)],"hs":[\#(hashes)]}"#).isUsable))
        #expect(
            !(try read(#"{"ps":["\#(String(repeating: "a/", count: 1_000_000))"],"hs":["",""]}"#).isUsable))
    }

    @Test(arguments: ["", "{", #"{"ps":["a""#, #"{"ps":[}"#, #"{"ps":["a",]}"#, "[", #"{"hs":[tru]}"#])
    func malformedIsThrown(json: String) {
        #expect(throws: MalformedJSON.self) { try read(json) }
    }
}

@Suite struct RangeMergeTables {
    private static let xy = #"{"a":{"x":1,"y":2},"b":3,"c":true}"#

    /// The server's tree, the ends of the client's ranges, and the entries to send.
    @Test(
        arguments: [
            (
                xy, #"{"a":{"x":1,"y":2},"b":4,"c":true}"#, ["a/x", "b", "c"],
                [("a/x", "b", #"{"a":{"y":2},"b":4}"#)]
            ),
            (
                xy, #"{"a":{"x":9,"y":2},"b":3,"c":true}"#, ["a/x", "b", "c"],
                [(nil, "a/x", #"{"a":{"x":9}}"#)]
            ),
            (xy, #"{"a":{"x":1,"y":2},"b":3,"c":true,"d":0}"#, ["a/x", "b", "c"], [("c", nil, #"{"d":0}"#)]),
            (xy, #"{"a":{"x":1,"y":2},"b":3}"#, ["a/x", "b", "c"], [("b", "c", "null")]),
            (xy, xy, ["a/x", "b", "c"], []),
            (
                xy, "null", ["a/x", "b", "c"],
                [(nil, "a/x", "null"), ("a/x", "b", "null"), ("b", "c", "null")]
            ),
            (
                xy, "7", ["b", "c"], [(nil, "b", "7"), ("b", "c", "null")]
            ),
            ("null", #"{"d":0}"#, [], [(nil, nil, #"{"d":0}"#)]),
            ("null", "null", [], []),
            (#""leaf""#, #"{"a":1}"#, ["/"], [(nil, "/", "null"), ("/", nil, #"{"a":1}"#)]),
            (#""leaf""#, #""other""#, ["/"], [(nil, "/", #""other""#)]),
            (
                #"{"foo":1,"z":1}"#, #"{"foo":{"x":1},"z":1}"#, ["foo", "z"],
                [(nil, "foo", "null"), ("foo", "z", #"{"foo":{"x":1},"z":1}"#)]
            ),
            (
                #"{"foo":{"x":1},"z":1}"#, #"{"foo":1,"z":1}"#, ["foo/x", "z"],
                [(nil, "foo/x", #"{"foo":1}"#)]
            ),
            (
                #"{"foo":{"!b":1,".priority":"p","a":2},"qux":3}"#,
                #"{"foo":{"!b":1,".priority":"p","a":5},"qux":3}"#,
                ["foo/.priority", "qux"], [("foo/.priority", "qux", #"{"foo":{"a":5},"qux":3}"#)]
            ),
            (
                #"{"foo":{"!b":1,".priority":"p","a":2},"qux":3}"#,
                #"{"foo":{"!b":1,".priority":"n","a":2},"qux":3}"#,
                ["foo/.priority", "qux"], [(nil, "foo/.priority", #"{"foo":{"!b":1,".priority":"n"}}"#)]
            ),
        ] as [(String, String, [Path], [(Path?, Path?, String)])])
    func entries(client: String, server: String, cuts: [Path], expected: [(Path?, Path?, String)]) throws {
        let claim = CompoundHashBuilder(try node(client)) { cuts.contains($0) }.claim
        #expect(claim.paths == cuts)
        let merges = try #require(try node(server).rangeMerges(against: claim))
        #expect(merges == (try expected.map { RangeMerge(start: $0, end: $1, node: try node($2)) }))
        var model = RangeMergeClient(try node(client), seed: 1)
        for merge in merges { model.apply(merge) }
        #expect(model.node == (try node(server)))
    }

    /// Ranges that must not be sent alone, because of how clients handle priorities.
    @Test(
        arguments: [
            (
                #"{"foo":{"!b":1,".priority":"p","a":2},"qux":3}"#,
                #"{"foo":{"!b":1,".priority":"n","a":2},"qux":3}"#,
                ["foo/!b", "foo/.priority", "foo/a", "qux"],
                [("foo/!b", "foo/a", #"{"foo":{".priority":"n","a":2}}"#)],
                "a priority reads back as nothing without a child"
            ),
            (
                #"{"foo":{"!b":1,".priority":"p","a":2},"qux":3}"#,
                #"{"foo":{".priority":"p","b":2},"qux":3}"#,
                ["foo/!b", "foo/.priority", "foo/a", "qux"],
                [(nil, "foo/!b", "null"), ("foo/!b", "qux", #"{"foo":{".priority":"p","b":2},"qux":3}"#)],
                "foo loses all its children on the way, and with them its priority"
            ),
            (
                #"{"l":{"-K":1,".priority":5},"z":1}"#, #"{"l":{"-K":1,".priority":7},"z":2}"#,
                ["l/-K", "z"],
                [(nil, "z", #"{"l":{"-K":1,".priority":7},"z":2}"#)],
                "no hash speaks of a priority after the last child"
            ),
            (
                #"{"a":1,"y":{"1":5,".priority":"z"}}"#, #"{"a":2,"y":{"1":5}}"#, ["a", "y/1"],
                [(nil, "a", #"{"a":2}"#), ("y/1", "y/.priority", "null")],
                "the client may have a priority that no hash speaks of"
            ),
            (
                #"{"-A":1,"-K":{"-L":{"1":5,".priority":1},".priority":2},".priority":3}"#,
                #"{"-A":2,"-K":{"-L":{"1":5}}}"#, ["-A", "-K/-L/1"],
                [(nil, "-A", #"{"-A":2}"#), ("-K/-L/1", ".priority", "null")],
                "one entry removes all such priorities behind one leaf"
            ),
            (
                #"{"a":1,"y":{"1":{".value":5,".priority":"p"},".priority":"z"},"z":1}"#,
                #"{"a":2,"y":{"1":{".value":5,".priority":"p"}},"z":1}"#, ["a", "z"],
                [(nil, "a", #"{"a":2}"#), ("y/1/.priority", "y/.priority", "null")],
                "the leaf before such a priority keeps its own"
            ),
            (
                #"{"a":1,"b":{"1":1,".priority":1},"c":{"1":1},"d":{"1":1},"e":{"1":1},"z":1}"#,
                #"{"a":2,"b":{"1":1},"c":{"1":1},"d":{"1":1},"e":{"1":1},"z":1}"#, ["a", "z"],
                [
                    (nil, "a", #"{"a":2}"#), ("b/1", "b/.priority", "null"), ("c/1", "c/.priority", "null"),
                    ("d/1", "d/.priority", "null"), ("e/1", "e/.priority", "null"),
                ], "four places of such priorities in one range"
            ),
            (
                #"{"a":1,"b":{"1":1,".priority":1},"c":{"1":1},"d":{"1":1},"e":{"1":1},"f":{"1":1},"z":1}"#,
                #"{"a":2,"b":{"1":1},"c":{"1":1},"d":{"1":1},"e":{"1":1},"f":{"1":1},"z":1}"#, ["a", "z"],
                [
                    (nil, "a", #"{"a":2}"#),
                    (
                        "a", "z",
                        #"{"b":{"1":1},"c":{"1":1},"d":{"1":1},"e":{"1":1},"f":{"1":1},"z":1}"#
                    ),
                ], "with more places all of the range is sent"
            ),
            (
                #"{"foo":{"!a":1,"zz":2}}"#, #"{"foo":{".value":1,".priority":"p"}}"#, ["foo/!a", "foo/zz"],
                [(nil, nil, #"{"foo":{".value":1,".priority":"p"}}"#)],
                "clearing foo/!a…foo/zz would take the leaf's priority for a child"
            ),
            (
                #"{"a":{".value":1,".priority":"p"},"b":2}"#, #"{"a":{".value":1,".priority":"p"},"b":3}"#,
                ["a", "b"],
                [("a/.priority", "b", #"{"b":3}"#)], "a range that begins at a leaf would clear its priority"
            ),
        ] as [(String, String, [Path], [(Path?, Path?, String)], String)])
    func neighbours(
        client: String, server: String, cuts: [Path], expected: [(Path?, Path?, String)], reason: String
    ) throws {
        let claim = CompoundHashBuilder(try node(client)) { cuts.contains($0) }.claim
        #expect(claim.paths == cuts)
        let merges = try #require(try node(server).rangeMerges(against: claim))
        #expect(
            merges == (try expected.map { RangeMerge(start: $0, end: $1, node: try node($2)) }), "\(reason)")
        var model = RangeMergeClient(try node(client), seed: 1)
        for merge in merges { model.apply(merge) }
        #expect(model.node == (try node(server)), "\(reason)")
    }

    /// realtime §9.7, on the client, by the model on which the property tests depend.
    @Test(
        arguments: [
            (
                #"{"bar":"b","foo":"f","quu":"q"}"#, "bar", "foo", #"{"foo":"new"}"#,
                #"{"bar":"b","foo":"new","quu":"q"}"#
            ),
            (#"{"bar":"b","foo":"f"}"#, nil, "foo", #"{"baz":"z"}"#, #"{"baz":"z"}"#),
            (#"{"foo":{"child":1}}"#, nil, "foo", #"{"baz":"z"}"#, #"{"baz":"z","foo":{"child":1}}"#),
            (#""leaf""#, nil, nil, #"{"a":1}"#, #"{"a":1}"#),
            (#"{"x":{"y":1}}"#, nil, nil, "null", "null"),
            (
                #"{"k":{"a":{"1":1,"2":2},"b":"b","c":"c","d":"d"}}"#, "k/a/1", "k/c",
                #"{"k":{"a":{"2":"n","3":3},"c":"n"}}"#, #"{"k":{"a":{"1":1,"2":"n","3":3},"c":"n","d":"d"}}"#
            ),
            (
                #"{"bar":"b","foo":"f",".priority":"p"}"#, nil, "bar", #"{"bar":"n"}"#,
                #"{"bar":"n","foo":"f"}"#
            ),
        ] as [(String, Path?, Path?, String, String)])
    func clientModel(before: String, start: Path?, end: Path?, merge: String, after: String) throws {
        var model = RangeMergeClient(try node(before), seed: 1)
        model.apply(RangeMerge(start: start, end: end, node: try node(merge)))
        #expect(model.node == (try node(after)))
    }
}

@Suite struct RangeMergeProperties {
    /// Whatever the client has and however it divided it, the entries change it to the server's tree.
    @Test(arguments: 0..<20)
    func converges(block: Int) throws {
        for round in 0..<250 {
            let seed = block * 1000 + round
            var maker = TreeMaker(generator: SeededGenerator(seed: seed))
            maker.priorityRarity = [0, 8, 2][round % 3]
            let server = maker.generator.one(in: 20) ? .empty : maker.tree()
            let client = maker.generator.one(in: 6) ? maker.tree() : maker.changed(server)
            var generator = SeededGenerator(seed: seed)
            let rarity = generator.pick([1, 2, 4, 100])
            let claim = CompoundHashBuilder(client) { _ in generator.one(in: rarity) }.claim
            let merges = try #require(server.rangeMerges(against: claim), "seed \(seed)")
            if merges.isEmpty {
                // Hidden priorities may differ: then the simple hash does, and all data is sent.
                #expect(
                    withoutHiddenPriorities(client) == withoutHiddenPriorities(server), "seed \(seed)")
                continue
            }
            for (merge, next) in zip(merges, merges.dropFirst()) {
                #expect(
                    merge.end != nil && next.start != nil && merge.end! <= next.start!,
                    "seed \(seed): out of order")
            }
            var model = RangeMergeClient(client, seed: seed)
            for merge in merges { model.apply(merge) }
            // Where data has no priorities, and many places for them, those of the client stay.
            let isCleared = RangeHasher(server, against: claim).clearsHiddenPlaces
            let node = isCleared ? model.node : withoutHiddenPriorities(model.node)
            #expect(
                node == server, "seed \(seed)\nclient \(client)\nserver \(server)\ncuts \(claim.paths)")
        }
    }

    /// An array in each of 3000 objects: without priorities only the range of the change is sent.
    @Test func dataWithoutPrioritiesIsNotSentForTheirSake() throws {
        var server = Node.empty
        for index in 10_000..<13_000 { server.set(.integer(1), at: Path(trusted: "o\(index)/tags/0")) }
        var client = server
        client.set(.integer(0), at: "o11000/tags/0")
        let claim = claim(of: client, leavesInRange: 100)
        #expect(try #require(server.rangeMerges(against: claim)).map(\.node.children.count) == [100])
        server.set(server[Path("o10500/tags")].with(priority: .number(1)), at: "o10500/tags")
        #expect(try #require(server.rangeMerges(against: claim)).count > 1)
    }

    /// Without priorities, and where no hidden priority is possible, exactly the ranges whose leaves differ.
    @Test(arguments: 0..<20)
    func isMinimal(block: Int) throws {
        for round in 0..<100 {
            let seed = block * 1000 + round
            var maker = TreeMaker(generator: SeededGenerator(seed: seed))
            maker.priorityRarity = 0
            // All after `.priority`.
            maker.keys = ["a", "b", "c", "1e3", "foo", "é", "🐵", "\u{E000}"]
            let server = maker.tree()
            let client = maker.changed(server)
            var generator = SeededGenerator(seed: seed)
            let claim = CompoundHashBuilder(client) { _ in generator.one(in: 2) }.claim
            let merges = try #require(server.rangeMerges(against: claim))
            var expected: [RangeMerge] = []
            for range in claim.hashes.indices {
                let start = range > 0 ? claim.paths[range - 1] : nil
                let end = range < claim.paths.count ? claim.paths[range] : nil
                func own(_ node: Node) -> Node {
                    var result = Node.empty
                    for (path, leaf) in leaves(of: node)
                    where (start.map { $0 < path } ?? true) && (end.map { path <= $0 } ?? true) {
                        result.set(leaf, at: path)
                    }
                    return result
                }
                let ours = own(server)
                if ours != own(client) { expected.append(RangeMerge(start: start, end: end, node: ours)) }
            }
            #expect(merges == expected, "seed \(seed)")
        }
    }

    /// Compound hashes that no client would send: any ascending paths, any hashes.
    @Test func randomCompoundHashesNeverTrap() {
        for seed in 0..<3000 {
            var maker = TreeMaker(generator: SeededGenerator(seed: seed))
            maker.priorityRarity = 2
            let node = maker.tree()
            maker.keys += [".priority", "", "."]
            maker.maxDepth = 5
            let paths = Set((0..<Int.random(in: 0...8, using: &maker.generator)).map { _ in maker.path() })
                .sorted()
            let claim = CompoundHash(
                paths: paths,
                hashes: Array(repeating: maker.generator.pick(["", "x"]), count: paths.count + 1))
            #expect(node.rangeMerges(against: claim) != nil, "seed \(seed)")
        }
    }

    /// 200 000 leaves in 20 000 ranges, half of them changed. A quadratic step would take minutes.
    @Test func manyRanges() throws {
        let entries = (0..<200_000).map { Children.Entry(key: Key(index: $0), node: .integer(Int64($0))) }
        let server = Node.object(Children(ascending: entries))
        let client = Node.object(
            Children(
                ascending: entries.map {
                    .init(key: $0.key, node: Int($0.key.string)! % 20 < 10 ? .integer(-1) : $0.node)
                }))
        let claim = claim(of: client, leavesInRange: 10)
        let merges = try #require(server.rangeMerges(against: claim))
        #expect(merges.count == 10_001)
        #expect(merges.dropLast().allSatisfy { $0.node.children.count == 10 })
        #expect(merges.last == RangeMerge(start: "199999", end: ".priority", node: .empty))
    }

    /// 10 000 objects under push ids, one of which has changed: its range and one short entry are sent.
    @Test func aChangeInAListOfPushIDsIsOneRange() throws {
        var server = Node.empty
        for index in 10_000..<20_000 { server.set(.integer(1), at: Path(trusted: "-K\(index)/text")) }
        var client = server
        client.set(.integer(0), at: "-K15000/text")
        let claim = claim(of: client, leavesInRange: 100)
        let merges = try #require(server.rangeMerges(against: claim))
        #expect(merges.map(\.node.children.count) == [100, 0])
        #expect(merges.last == RangeMerge(start: "-K19999/text", end: ".priority", node: .empty))
    }

    /// What a client claims whose ranges have so many leaves each.
    private func claim(of client: Node, leavesInRange leafCount: Int) -> CompoundHash {
        var count = 0
        return CompoundHashBuilder(client) { _ in
            count += 1
            return count % leafCount == 0
        }.claim
    }

    private func leaves(of node: Node, at path: Path = .root) -> [(Path, Node)] {
        guard case .object(let children) = node else { return node.isEmpty ? [] : [(path, node)] }
        return children.entries.flatMap { leaves(of: $0.node, at: path.appending($0.key)) }
    }

    private func withoutHiddenPriorities(_ node: Node) -> Node {
        guard case .object(let children) = node.withoutPriority else { return node }
        let entries = children.entries.map {
            Children.Entry(key: $0.key, node: withoutHiddenPriorities($0.node))
        }
        let isHidden = entries.last!.key < ".priority"
        return Node.object(Children(ascending: entries)).with(priority: isHidden ? nil : node.priority)
    }
}
