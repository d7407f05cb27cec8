import PandoEngine
import PandoTree
import Testing

/// The exact pushes of filtered listens (realtime §7.5, §15.4).
@Suite struct WindowPushes {
    @Test func transcript15_4() {
        var scene = Scene(#"{"top":{"p1":{"score":10},"p2":{"score":30},"p3":{"score":20}}}"#)
        let query = #"{"l":2,"vf":"r","i":"score"}"#
        #expect(
            scene.listen(1, "top", query, tag: 1, hash: "")
                == [#"S1#1 d top {"p2":{"score":30},"p3":{"score":20}}"#, "ok {}"])
        #expect(
            scene.put(2, "top/p1/score", "40") == [#"S1#1 m top {"p3":null,"p1":{"score":40}}"#, "ok"],
            "p1 enters, p3 leaves")
        #expect(scene.put(2, "top/p2/score", "50") == ["S1#1 d top/p2/score 50", "ok"], "both stay")
        #expect(
            scene.put(2, "top/p2", "null") == [#"S1#1 m top {"p2":null,"p3":{"score":20}}"#, "ok"],
            "p3 refills")
        #expect(scene.put(2, "top/p4", #"{"score":5}"#) == ["ok"], "outside the window")
        #expect(
            scene.put(2, "top/p1/score", "1") == [#"S1#1 m top {"p1":null,"p4":{"score":5}}"#, "ok"],
            "p1 leaves, p4 moves up")
        #expect(scene.put(2, "top", "null") == ["S1#1 d top null", "ok"])
        #expect(scene.unlisten(1, "top", query, tag: 1) == ["ok"])
    }

    @Test func initialHash() {
        var scene = Scene(#"{"top":{"p1":{"score":10},"p2":{"score":30},"p3":{"score":20}}}"#)
        let query = #"{"l":2,"vf":"r","i":"score"}"#
        #expect(scene.listen(1, "top", query, tag: 1, hash: "3O0eeVufqdWT77uqFKe6UkHgqWA=") == ["ok {}"])
        #expect(
            scene.listen(1, "top", query, tag: 2, hash: "QC9/bC9jVO6fgvkrV/wzErbJw+M=").count == 2,
            "the hash of the whole location is not that of the window")
    }

    /// Session 1 listens with tag 1 at `/q`; session 2 puts once.
    @Test(
        arguments: [
            // data                                   query                                path     value                pushed                                       because
            (
                #"{"a":1,"b":2}"#, #"{"l":2,"vf":"r"}"#, "c", "3", [#"m q {"a":null,"c":3}"#],
                "enters a full window, evicts"
            ),
            (#"{"a":1,"b":2}"#, #"{"l":2,"vf":"r"}"#, "Z", "9", [], "before the window"),
            (#"{"a":1,"b":2}"#, #"{"l":3,"vf":"r"}"#, "c", "3", ["d q/c 3"], "there is room"),
            (
                #"{"a":1,"b":2}"#, #"{"l":3,"vf":"r"}"#, "a", "null", ["d q/a null"],
                "leaves, no other child enters"
            ),
            (
                #"{"Z":9,"a":1,"b":2}"#, #"{"l":2,"vf":"r"}"#, "b", "null", [#"m q {"b":null,"Z":9}"#],
                "leaves, the hidden one enters"
            ),
            (
                #"{"a":{"n":1},"b":{"n":2},"c":{"n":3}}"#, #"{"i":"n","l":2,"vf":"l"}"#, "a/n", "10",
                [#"m q {"a":null,"c":{"n":3}}"#], "moves behind the hidden one"
            ),
            (
                #"{"a":{"n":1},"b":{"n":2},"c":{"n":3}}"#, #"{"i":"n","l":2,"vf":"l"}"#, "c/n", "0",
                [#"m q {"b":null,"c":{"n":0}}"#], "a deep change makes a hidden child enter: whole"
            ),
            (
                #"{"a":{"n":1},"b":{"n":2},"c":{"n":3}}"#, #"{"i":"n","l":2,"vf":"l"}"#, "c",
                #"{"n":0,"x":1}"#, [#"m q {"b":null,"c":{"n":0,"x":1}}"#], "enters"
            ),
            (
                #"{"a":{"n":1},"b":{"n":2},"c":{"n":3}}"#, #"{"i":"n","l":2,"vf":"l"}"#, "c/x", "1", [],
                "hidden, and stays so"
            ),
            (
                #"{"a":{"n":1},"b":{"n":2}}"#, #"{"i":"n","l":2,"vf":"l"}"#, "a/n", "3", ["d q/a/n 3"],
                "moves within the window"
            ),
            (
                #"{"a":{"n":1},"b":{"n":2}}"#, #"{"i":"n","sp":2}"#, "a/n", "5", [#"d q/a {"n":5}"#],
                "enters a range"
            ),
            (
                #"{"a":{"n":1},"b":{"n":2}}"#, #"{"i":"n","sp":2}"#, "b/n", "1", ["d q/b null"],
                "falls out of a range: null, not its new value"
            ),
            (
                #"{"a":{"n":1},"b":{"n":2}}"#, #"{"i":"n","sp":2}"#, "b/x/y", "1", ["d q/b/x/y 1"],
                "a change deep inside a child that stays"
            ),
            (
                #"{"a":{"n":1},"b":{"n":2}}"#, #"{"i":"n","sp":2}"#, "", #"{"b":{"n":2}}"#, [],
                "replaced, and the window is the same"
            ),
            (
                #"{"a":{"n":1},"b":{"n":2}}"#, #"{"i":"n","sp":2}"#, "", #"{"c":{"n":3}}"#,
                [#"d q {"c":{"n":3}}"#], "replaced: the new window, whole"
            ),
            (
                #"{"a":{"n":1},"b":{"n":2}}"#, #"{"i":"n","sp":2}"#, "", "5", ["d q null"],
                "a leaf has no children"
            ),
            (
                #"{"a":{"n":1}}"#, #"{"i":"n","sp":2}"#, "a", "null", [],
                "the location vanishes, the window was empty"
            ),
            (
                #"{"b":{"n":2}}"#, #"{"i":"n","sp":2}"#, "b/n", "null", ["d q null"],
                "the location vanishes with its last child"
            ),
            (
                #"{"a":1,"b":2,".priority":3}"#, #"{"l":2}"#, ".priority", "4", [],
                "the location's own priority is no part of the result"
            ),
            (
                #"{"a":1,"b":2}"#, #"{"l":2}"#, "a/.priority", "4", [#"d q/a {".value":1,".priority":4}"#],
                "a child's is"
            ),
            (
                #"{"a":1,"b":2,"c":3}"#, #"{"l":2,"vf":"l"}"#, "a/.priority", "4", [#"m q {"a":null,"c":3}"#],
                "and may make it leave"
            ),
            (
                #"{"a":1}"#, #"{"i":".key","sp":"b","ep":"d"}"#, "c/x", "1", [#"d q/c {"x":1}"#],
                "a new child is pushed whole"
            ),
            (
                #"{"c":{".value":1,".priority":2}}"#, #"{"i":".key","sp":"b","ep":"d"}"#, "c/x", "1",
                ["d q/c/x 1"], "a leaf in the window becomes an object"
            ),
        ] as [(String, String, String, String, [String], String)])
    func put(data: String, query: String, path: String, json: String, pushed: [String], because: String) {
        var scene = Scene(#"{"q":\#(data)}"#)
        scene.listen(1, "q", query, tag: 1)
        #expect(scene.put(2, "q/" + path, json) == pushed.map { "S1#1 " + $0 } + ["ok"], "\(because)")
    }

    /// Session 1 listens with tag 1 at `/q`; session 2 merges at `/q`. One message, whatever happens.
    @Test(
        arguments: [
            // data                                query                            entries                                             pushed                                        because
            (
                #"{"a":1,"b":2,"c":3,"d":4}"#, #"{"l":2,"vf":"l"}"#, [("a", "null"), ("b", "null")],
                [#"m q {"a":null,"b":null,"c":3,"d":4}"#], "two leave, two enter"
            ),
            (
                #"{"a":1,"b":2}"#, #"{"l":2,"vf":"l"}"#, [("0", "0"), ("c", "3")], [#"m q {"b":null,"0":0}"#],
                "one enters, one stays outside"
            ),
            (
                #"{"a":{"x":1,"y":1},"b":2}"#, #"{"l":2,"vf":"l"}"#,
                [("a/x", "2"), ("a/y", "null"), ("b", "3")], [#"m q {"a/x":2,"b":3,"a/y":null}"#],
                "changes of those that stay"
            ),
            (
                #"{"a":{"x":1},"b":2}"#, #"{"l":2,"vf":"l"}"#, [("a/x", "null"), ("a/y", "1")],
                [#"d q/a {"y":1}"#], "a child that one order would empty is pushed whole"
            ),
            (
                #"{"a":{"n":{"x":1},"z":1}}"#, #"{"i":"n","l":2,"vf":"l","sp":1}"#,
                [("a/n/x", "null"), ("a/n/y", "1"), ("a/z", "2")], [#"d q/a {"n":{"y":1},"z":2}"#],
                "a child whose order value one order would empty is pushed whole"
            ),
            (
                #"{"a":{"n":{"x":1},"z":1}}"#, #"{"i":"n","l":2,"vf":"l"}"#,
                [("a/n/x", "2"), ("a/z", "null")], [#"m q {"a/n/x":2,"a/z":null}"#],
                "removals beside the order value empty nothing"
            ),
            (#"{"a":1,"b":2}"#, #"{"l":2,"vf":"l"}"#, [("c", "1"), ("d/e", "1")], [], "all outside"),
            (
                #"{"a":1,"b":2}"#, #"{"l":2,"vf":"l"}"#, [("a", "null"), ("b", "null")], ["d q null"],
                "the location is emptied"
            ),
            (
                #"{"a":{"n":1},"b":{"n":2}}"#, #"{"i":"n","l":1,"vf":"l"}"#, [("a/n", "2"), ("b/n", "1")],
                [#"m q {"a":null,"b":{"n":1}}"#], "they change places"
            ),
        ] as [(String, String, [(String, String)], [String], String)])
    func merge(data: String, query: String, entries: [(String, String)], pushed: [String], because: String) {
        var scene = Scene(#"{"q":\#(data)}"#)
        scene.listen(1, "q", query, tag: 1)
        #expect(scene.merge(2, "q", entries) == pushed.map { "S1#1 " + $0 } + ["ok"], "\(because)")
    }

    /// A write above the queried location is pushed at that location.
    @Test func putAboveListenPushesItsValue() {
        var scene = Scene(#"{"p":{"q":{"a":1,"b":2}}}"#)
        scene.listen(1, "p/q", #"{"l":1,"vf":"l"}"#, tag: 1)
        #expect(scene.put(2, "p", #"{"q":{"a":1,"c":2}}"#) == ["ok"], "only hidden children differ")
        #expect(scene.put(2, "", #"{"p":{"q":{"c":3}}}"#) == [#"S1#1 d p/q {"c":3}"#, "ok"])
        #expect(scene.put(2, "p", "1") == ["S1#1 d p/q null", "ok"])
    }
}
