import PandoBytes
import PandoRules
import PandoTree
import Testing

@testable import PandoEngine

/// Beginning and ending listens (realtime §4.2, §4.3, §6.2, §6.4).
@Suite struct Listens {
    @Test(
        arguments: [
            // tree        hash                              pushed                      because
            (
                "null", nil, ["S1 d c null", "ok {}"],
                "without a hash the client waits for data, even for null"
            ),
            ("null", "", ["ok {}"], "nothing, and the client knows"),
            ("null", "x", ["S1 d c null", "ok {}"], "the client holds something that is gone"),
            (#"{"c":5}"#, nil, ["S1 d c 5", "ok {}"], "no hash"),
            (#"{"c":5}"#, "", ["S1 d c 5", "ok {}"], "the client has nothing"),
            (#"{"c":5}"#, "w28swksk9+tXf5jEdS9R5oSFAv8=", ["ok {}"], "the hash of 5"),
            (#"{"c":5}"#, "5PG1TllwFpsPMPTAduN1cJllS2g=", ["S1 d c 5", "ok {}"], "the hash of 100"),
        ] as [(String, String?, [String], String)])
    func begin(tree: String, hash: String?, pushed: [String], because: String) {
        var scene = Scene(tree)
        #expect(scene.listen(1, "c", hash: hash) == pushed, "\(because)")
    }

    @Test func lockedDatabase() {
        var scene = Scene(#"{"a":1}"#, access: .locked)
        #expect(scene.listen(1, "a") == ["permission_denied"])
        #expect(scene.run(1, .get("a", Query())) == ["permission_denied"])
        #expect(scene.put(1, "a", "2") == ["permission_denied"])
        #expect(
            scene.put(1, "a", "2", hash: "w28swksk9+tXf5jEdS9R5oSFAv8=") == ["permission_denied"],
            "before the hash")
        #expect(scene.merge(1, "a", [("b", "1")]) == ["permission_denied"])
        #expect(scene.merge(1, "a", []) == ["ok"], "a merge of nothing asks for nothing (§4.6)")
        #expect(scene.run(1, .onDisconnect([Write("a", "1")])) == ["permission_denied"])
        #expect(scene.engine.checkInvariants() == (1, 0), "no listen was made, nothing queued")
        scene.credential = .admin
        #expect(scene.listen(1, "a") == ["S1 d a 1", "ok {}"], "rules do not apply to an administrator")
        scene.run(1, .onDisconnect([Write("a", "9")]))
        #expect(scene.run(1, .endSession) == [], "an ended session gets no push")
        #expect(scene.tree == #"{"a":9}"#, "a queued write runs with its own credential")
    }

    @Test func duplicatesAreHarmless() {
        var scene = Scene(#"{"a":1}"#)
        scene.listen(1, "a")
        #expect(scene.listen(1, "a") == ["S1 d a 1", "ok {}"], "answered like the first")
        scene.listen(1, "a", #"{"l":1}"#, tag: 3)
        scene.listen(1, "a", #"{"l":1,"vf":"r"}"#, tag: 3)
        #expect(
            scene.put(1, "a", #"{"x":1}"#) == [#"S1 d a {"x":1}"#, #"S1#3 d a {"x":1}"#, "ok"],
            "one push each")
        scene.unlisten(1, "a")
        scene.unlisten(1, "a", #"{"l":1}"#, tag: 3)
        #expect(scene.put(1, "a", "2") == ["ok"], "one unlisten ends it")
        #expect(scene.engine.checkInvariants() == (1, 0))
    }

    @Test func unlistenOfUnknownListens() {
        var scene = Scene()
        #expect(scene.unlisten(1, "a") == ["ok"])
        scene.listen(1, "a/b")
        scene.listen(1, "a/b", #"{"l":1}"#, tag: 1)
        #expect(scene.unlisten(1, "a") == ["ok"])
        #expect(scene.unlisten(1, "a/b/c") == ["ok"])
        #expect(scene.unlisten(2, "a/b") == ["ok"])
        #expect(scene.unlisten(1, "a/b", #"{"l":1}"#, tag: 2) == ["ok"])
        #expect(scene.unlisten(1, "a/b", #"{"l":2}"#, tag: 1) == ["ok"])
        #expect(scene.put(2, "a/b/c", "1") == ["S1 d a/b/c 1", "S1#1 d a/b/c 1", "ok"], "nothing was ended")
    }

    @Test func queryWithoutTagIsRefused() {
        var scene = Scene(#"{"secret":1}"#)
        #expect(scene.listen(1, "", #"{"l":1}"#) == ["failed"], "it would get all changes")
        #expect(scene.listen(1, "", tag: 1) == ["failed"])
        #expect(scene.engine.checkInvariants() == (1, 0))
    }

    /// While a session listens to a location, it gets no change of it twice (§6.4).
    @Test func coveredListens() {
        var scene = Scene()
        scene.listen(1, "a/b/c")
        scene.listen(1, "a/d")
        #expect(scene.put(2, "a/b/c", "1") == ["S1 d a/b/c 1", "ok"])
        scene.listen(1, "a/b")
        #expect(scene.put(2, "a/b/c", "2") == ["S1 d a/b/c 2", "ok"], "only the upper listen gets the push")
        scene.listen(1, "")
        #expect(scene.put(2, "a", #"{"b":{"c":3},"d":3}"#) == [#"S1 d a {"b":{"c":3},"d":3}"#, "ok"])
        scene.listen(1, "a/b/e")
        #expect(
            scene.put(2, "a/b", #"{"c":4,"e":4}"#) == [#"S1 d a/b {"c":4,"e":4}"#, "ok"],
            "born under a wider one")
        scene.unlisten(1, "")
        #expect(
            scene.put(2, "a", #"{"b":{"c":5},"d":5}"#) == [#"S1 d a/b {"c":5}"#, "S1 d a/d 5", "ok"],
            "the next wider ones take over, and only those")
        scene.unlisten(1, "a/b")
        #expect(
            scene.put(2, "a", #"{"b":{"c":6,"e":6},"d":5}"#) == ["S1 d a/b/c 6", "S1 d a/b/e 6", "ok"])
        scene.unlisten(1, "a/b/c")
        scene.unlisten(1, "a/b/e")
        scene.unlisten(1, "a/d")
        #expect(scene.engine.checkInvariants() == (1, 0))
    }

    /// More listens below than are looked at when one above begins: they get their pushes, too, which is
    /// allowed, until it ends, and after.
    @Test func manyListensBelowANewOne() {
        var scene = Scene()
        for number in 0..<300 { scene.listen(1, Path(["l", Key(unchecked: Text("k\(number)"))])) }
        scene.listen(1, "l")
        #expect(scene.put(2, "l/k7", "1") == ["S1 d l/k7 1", "S1 d l/k7 1", "ok"])
        scene.listen(1, "l/new")
        #expect(scene.put(2, "l/new", "1") == ["S1 d l/new 1", "ok"], "born under a wider one")
        _ = scene.engine.checkInvariants()
        scene.unlisten(1, "l")
        #expect(scene.put(2, "l/new", "2") == ["S1 d l/new 2", "ok"], "it takes over")
        #expect(scene.put(2, "l", #"{"k7":3,"new":3}"#) == ["S1 d l/k7 3", "S1 d l/new 3", "ok"])
        scene.run(1, .endSession)
        #expect(scene.engine.checkInvariants() == (1, 0))
    }

    /// A listen whose wider one ended gets every kind of write.
    @Test(arguments: ["put at it", "put above", "put below", "merge", "merge of its parent"])
    func takesOver(kind: String) {
        var scene = Scene()
        scene.listen(1, "")
        scene.listen(1, "a/b")
        scene.listen(1, "a/b/c")
        scene.unlisten(1, "")
        let lines =
            switch kind {
            case "put at it": scene.put(2, "a/b", #"{"c":1}"#)
            case "put above": scene.put(2, "a", #"{"b":{"c":1}}"#)
            case "put below": scene.put(2, "a/b/c/d", "1")
            case "merge": scene.merge(2, "a/b", [("c", "1"), ("d", "1")])
            default: scene.merge(2, "", [("a", #"{"b":{"c":1}}"#), ("z", "1")])
            }
        #expect(lines.count == 2 && lines[0].hasPrefix("S1 "), "\(lines)")
        _ = scene.engine.checkInvariants()
        scene.unlisten(1, "a/b")
        #expect(scene.put(2, "a/b/c", "7") == ["S1 d a/b/c 7", "ok"])
    }

    /// What a session's listens and queued writes take in memory (``SessionLimit/listenBytes``).
    @Test func heldBytes() {
        var scene = Scene(#"{"q":{"a":1,"b":2,"c":3}}"#)
        func held(_ session: UInt64) -> Int { scene.engine.heldByteCount(of: SessionID(session)) }
        scene.listen(1, "a")
        let shallow = held(1)
        scene.listen(1, "a")
        #expect(held(1) == shallow, "the same listen")
        scene.listen(1, "b/1/2/3/4/5/6/7/8/9")
        #expect(held(1) > 2 * shallow, "a path takes memory by its length")
        var before = held(1)
        scene.listen(1, "q", #"{"i":".value","sp":"\#(String(repeating: "x", count: 5000))"}"#, tag: 1)
        #expect(held(1) - before > 5000, "so does a query's text")
        before = held(1)
        scene.listen(1, "q", #"{"i":".key","sp":"a"}"#, tag: 2)
        let alone = held(1) - before
        scene.listen(2, "q", #"{"i":".key","sp":"a"}"#, tag: 2)
        #expect(held(2) < alone, "a window that is shared")
        before = held(1)
        scene.run(1, .onDisconnect([Write("o/1/2/3", "1")]))
        #expect(held(1) > before + 256)
        scene.run(1, .cancelOnDisconnect("o"))
        #expect(held(1) == before)
        _ = scene.engine.checkInvariants()
        scene.unlisten(1, "a")
        #expect(held(1) == before - shallow)
        scene.run(1, .endSession)
        scene.run(2, .endSession)
        #expect(held(1) == 0 && held(2) == 0)
    }

    @Test func listensThatTakeTooMuchMemoryAreRefused() {
        var scene = Scene()
        scene.engine.listenByteLimit = 64 << 10
        var count = 0
        while count < 1000, scene.listen(1, Path([Key(unchecked: Text("k\(count)"))])) != ["failed"] {
            count += 1
        }
        #expect((100..<1000).contains(count))
        #expect(scene.engine.heldByteCount(of: SessionID(1)) <= 64 << 10)
        #expect(scene.listen(2, "a") == ["S2 d a null", "ok {}"], "another session has its own")
        scene.unlisten(1, "k0")
        #expect(scene.listen(1, "k0") != ["failed"])
    }

    /// The end of many listens is done in parts by what there is to do, however deep they are.
    @Test func endsInParts() {
        var scene = Scene()
        for number in 0..<100 {
            scene.listen(1, Path((0..<29).map { Key(unchecked: Text("d\($0)x\(number)")) }))
            scene.listen(1, "q", #"{"l":\#(number + 1)}"#, tag: Int64(number + 1))
        }
        #expect(scene.engine.tree.endingWork(of: SessionID(1)) == 100 * 30 + 100 * (2 + 8))
        var ending = scene.engine.tree.detachListens(of: SessionID(1))!
        var parts = 0
        while !ending.isEmpty {
            var work = 300
            scene.engine.tree.end(&ending, doing: &work)
            #expect(work <= 0 || ending.isEmpty)
            parts += 1
        }
        #expect((13...15).contains(parts))
        #expect(scene.engine.checkInvariants() == (1, 0))
    }

    /// A tagged listen gets its own push, whatever other listens its session has.
    @Test func taggedBesideDefault() {
        var scene = Scene()
        scene.listen(1, "")
        scene.listen(1, "q", #"{"l":1,"vf":"l"}"#, tag: 5)
        #expect(scene.put(1, "q/a", "1") == ["S1 d q/a 1", "S1#5 d q/a 1", "ok"])
        #expect(scene.put(1, "q/b", "1") == ["S1 d q/b 1", "ok"], "outside the window")
    }

    /// Sessions with the same query share one window; each has its own tag.
    @Test func oneWindowManyTags() {
        var scene = Scene()
        for session in 1...40 { scene.listen(UInt64(session), "q", #"{"l":1}"#, tag: Int64(session)) }
        #expect(scene.put(99, "q/a", "1").count == 41)
        for session in 1...40 where session % 2 == 0 { scene.run(UInt64(session), .endSession) }
        #expect(scene.put(99, "q/a", "2").count == 21)
        for session in 1...40 { scene.unlisten(UInt64(session), "q", #"{"l":1}"#, tag: Int64(session)) }
        #expect(scene.put(99, "q/a", "3") == ["ok"])
        #expect(scene.engine.checkInvariants() == (1, 0))
    }

    /// A push takes a frame for each tag, so one session may have only so many for the same query.
    @Test func tagsOfOneQueryAreBounded() {
        var scene = Scene()
        let limit = SessionListens.tagLimit
        let query = #"{"l":1}"#
        // Another session first: the number of recipients does not matter.
        for session in 2...40 { scene.listen(UInt64(session), "q", query, tag: 1) }
        for tag in 1...limit { #expect(scene.listen(1, "q", query, tag: Int64(tag)) != ["failed"]) }
        #expect(scene.listen(1, "q", query, tag: 99) == ["failed"])
        #expect(scene.listen(1, "q", query, tag: 3) != ["failed"], "one that it has")
        #expect(scene.listen(1, "q", #"{"l":2}"#, tag: 99) != ["failed"], "another query")
        #expect(scene.listen(1, "p", query, tag: 98) != ["failed"], "another location")
        #expect(scene.listen(2, "q", query, tag: 2) != ["failed"], "another session")
        #expect(scene.put(99, "q/a", "1").count == limit + 1 + 40 + 1)
        _ = scene.engine.checkInvariants()
        scene.unlisten(1, "q", query, tag: 3)
        #expect(scene.listen(1, "q", query, tag: 97) != ["failed"])
        #expect(scene.listen(1, "q", query, tag: 96) == ["failed"])
        // Few recipients are left, and then many again.
        for session in 2...40 { scene.run(UInt64(session), .endSession) }
        for tag in 1...limit where tag != 3 { scene.unlisten(1, "q", query, tag: Int64(tag)) }
        _ = scene.engine.checkInvariants()
        for tag in 1..<limit { #expect(scene.listen(1, "q", query, tag: Int64(tag)) != ["failed"]) }
        #expect(scene.listen(1, "q", query, tag: 96) == ["failed"])
        scene.run(1, .endSession)
        #expect(scene.engine.checkInvariants() == (1, 0))
    }

    /// Many distinct queries at one place, ended in another order than they came.
    @Test func manyQueries() {
        var scene = Scene()
        for count in 1...40 { scene.listen(1, "q", #"{"l":\#(count)}"#, tag: Int64(count)) }
        #expect(scene.put(2, "q/a", "1").count == 41)
        for count in stride(from: 1, through: 40, by: 3) {
            scene.unlisten(1, "q", #"{"l":\#(count)}"#, tag: Int64(count))
        }
        #expect(scene.put(2, "q/a", "2").count == 27)
        _ = scene.engine.checkInvariants()
        scene.run(1, .endSession)
        #expect(scene.engine.checkInvariants() == (1, 0))
    }

    @Test func getThroughAQuery() {
        var scene = Scene(#"{"a":{"x":1,"y":2,".priority":7}}"#)
        #expect(scene.run(1, .get("a", Query())) == [#"ok {".priority":7,"x":1,"y":2}"#])
        #expect(
            scene.run(1, .get("a", Query(#"{"i":".value"}"#))) == [#"ok {".priority":7,"x":1,"y":2}"#],
            "no filter")
        #expect(scene.run(1, .get("a", Query(#"{"i":".value","l":1,"vf":"r"}"#))) == [#"ok {"y":2}"#])
        #expect(scene.run(1, .get("a/x", Query(#"{"l":1}"#))) == ["ok null"], "a leaf has no children")
        #expect(scene.engine.checkInvariants() == (1, 0), "a get leaves nothing behind")
    }

    /// What has to go when a credential or the rules change (§4.7).
    @Test func revokedListens() {
        var scene = Scene()
        scene.listen(1, "b")
        scene.listen(1, "a", #"{"l":2}"#, tag: 7)
        scene.listen(1, "a", #"{"l":1}"#, tag: 3)
        scene.listen(1, "a")
        func denied(_ session: UInt64, _ credential: Credential) -> [String] {
            scene.engine.listens(of: SessionID(session), deniedTo: credential, at: 0).map {
                "\($0.path)#\($0.tag ?? 0)"
            }
        }
        #expect(denied(1, .anonymous) == [])
        scene.engine.access = .locked
        #expect(denied(1, .anonymous) == ["/a#0", "/a#3", "/a#7", "/b#0"])
        #expect(denied(1, .admin) == [])
        #expect(denied(2, .anonymous) == [])
    }
}
