import PandoTree
import Testing

@testable import PandoEngine

/// A write above very many listens is done by sessions (`ListenRegistry+Pushes.swift`): the same messages, of
/// which each session with many gets its own as one push.
@Suite("writes above many listens") struct ManyListensTests {
    /// Sessions 1 and 2 listen to many children of `l`, session 3 to few locations.
    private func scene(visiting limits: ListenRegistry.Limits) -> Scene {
        var scene = Scene(#"{"l":{"k1":{"a":1},"k2":{"a":2},"gone":1},"m":1}"#)
        scene.engine.tree.listens.limits = limits
        for number in 0..<5 {
            scene.listen(1, Path(text: "l/k\(number)"))
            scene.listen(2, Path(text: "l/k\(number)/a"))
        }
        scene.listen(2, "l/gone")
        scene.listen(3, "l/k2")
        scene.listen(3, "m")
        scene.listen(3, "l/k1", #"{"i":".key","l":1,"vf":"l"}"#, tag: 7)
        return scene
    }

    private let changed = #"{"k1":{"a":1},"k2":{"a":5},"k3":{"a":3}}"#
    private let few = ListenRegistry.Limits(
        visitedNodeCount: 3, visitedListenCount: 3, alwaysVisitedListenCount: 0)

    @Test func sameMessagesAsOneByOne() {
        var (usual, bySession) = (scene(visiting: .init()), scene(visiting: few))
        let expected = usual.put(4, "l", changed)
        #expect(expected.count == 7)
        #expect(bySession.put(4, "l", changed).sorted() == expected.sorted())
        #expect(
            bySession.merge(4, "", [("l", "null"), ("m", "2")]).sorted()
                == usual.merge(4, "", [("l", "null"), ("m", "2")]).sorted())
    }

    @Test func oneSessionIsOnePush() {
        var scene = scene(visiting: few)
        let (_, effects) = scene.engine.execute(
            Command(
                session: SessionID(4), credential: .anonymous, time: 1000,
                operation: .put(Write("l", changed))))
        let sizes = effects.pushes.map { push in
            if case .listens = push.body { (true, push.messages.count) } else { (false, 1) }
        }
        #expect(sizes.map(\.0) == [false, true, true], "session 3 first, then those with many listens")
        #expect(sizes.map(\.1) == [1, 2, 3])
    }

    /// Sessions 1 to 3 have 5, 6 and 1 default listens below the change.
    @Test(
        "of many sessions with few listens each, those beyond a limit are left to another thread",
        arguments: [(12, [1, 2, 3]), (11, [1, 2]), (10, [1, 3]), (4, [3]), (0, [])])
    func sessionsBeyondTheTotal(total: Int, visited: [Int]) {
        let limits = ListenRegistry.Limits(
            visitedNodeCount: 3, visitedListenTotal: total, alwaysVisitedListenCount: 0)
        var scene = scene(visiting: limits)
        let (_, effects) = scene.engine.execute(
            Command(
                session: SessionID(4), credential: .anonymous, time: 1000,
                operation: .put(Write("l", changed))))
        let others: [Int] = effects.pushes.compactMap { push in
            guard case .listens = push.body else { return nil }
            return push.recipients.first?.first.map { Int($0.rawValue) }
        }
        #expect(others == [1, 2, 3].filter { !visited.contains($0) })
        var usual = self.scene(visiting: .init())
        #expect(effects.lines.sorted() == usual.put(4, "l", changed).sorted())
    }

    @Test("a listen below another one of its session is left out")
    func coveredListens() {
        var scene = scene(visiting: few)
        scene.listen(1, "l/k2/a")
        let lines = scene.put(4, "l", changed)
        #expect(lines.filter { $0.hasPrefix("S1 ") } == [#"S1 d l/k2 {"a":5}"#, #"S1 d l/k3 {"a":3}"#])
    }

    @Test("the push is what the write left, whatever comes after it")
    func laterWrites() {
        var scene = scene(visiting: few)
        let (_, effects) = scene.engine.execute(
            Command(
                session: SessionID(4), credential: .anonymous, time: 1000,
                operation: .put(Write("l", changed))))
        scene.put(4, "l/k2/a", "9")
        scene.unlisten(1, "l/k3")
        scene.listen(1, "l/k7")
        #expect(
            effects.lines.filter { $0.hasPrefix("S1 ") } == [
                #"S1 d l/k2 {"a":5}"#, #"S1 d l/k3 {"a":3}"#,
            ])
    }

    @Test("a session that has missed a write above its many listens gets all of them")
    func catchUp() {
        var scene = scene(visiting: few)
        scene.put(4, "l", changed)
        let pushes = scene.engine.tree.catchUp(SessionID(1), paths: ["l"], tags: [])
        #expect(
            Effects(pushes: pushes).lines == [
                #"S1 d l/k0 null"#, #"S1 d l/k1 {"a":1}"#, #"S1 d l/k2 {"a":5}"#,
                #"S1 d l/k3 {"a":3}"#, #"S1 d l/k4 null"#,
            ])
    }
}
