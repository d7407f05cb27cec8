import PandoBytes
import PandoRandom
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

    // MARK: Long paths

    /// Locations of nearly as many bytes as a path may have: so many below one.
    private static func longPaths(_ count: Int, below base: Path) -> [Path] {
        let keys = Array(repeating: Key(unchecked: Text(String(repeating: "k", count: 740))), count: 29)
        return (0..<count).map { base.appending(keys).appending(Key(unchecked: Text("n\($0)"))) }
    }

    @Test("a few listens at long paths take as long as many, and are left to another thread as these are")
    func longPathsCountAsMany() {
        let (short, long) = (Scene(), Scene())
        let longPaths = Self.longPaths(12, below: "l")
        for number in 0..<12 {
            for (scene, path) in [(short, Path(text: "l/n\(number)")), (long, longPaths[number])] {
                var scene = scene
                scene.listen(UInt64(1 + number % 3), path)
                scene.run(4, .put(Write(Target(path), Draft("1"))))
            }
        }
        func isLeft(_ scene: Scene) -> [Bool] {
            var scene = scene
            let (_, effects) = scene.engine.execute(
                Command(
                    session: SessionID(4), credential: .anonymous, time: 1000,
                    operation: .put(Write("l", "2"))))
            #expect(effects.pushes.flatMap(\.messages).count == 12)
            return effects.pushes.map { if case .listens = $0.body { true } else { false } }
        }
        #expect(isLeft(short) == Array(repeating: false, count: 12))
        #expect(isLeft(long) == [true, true, true], "one for each session")
    }

    @Test("listens are left out that another one at a long path is above, also by another thread")
    func coveredAtLongPaths() {
        var scene = Scene()
        let paths = Self.longPaths(12, below: "l")
        for path in paths {
            scene.listen(1, path.appending("below"))
            scene.listen(1, path)
            scene.run(4, .put(Write(Target(path), Draft(#"{"below":1}"#))))
        }
        let lines = scene.put(4, "l", "2")
        #expect(lines.count == 13 && !lines.contains { $0.contains("/below") })
    }

    @Test("of very many listens, only those are visited that can have changed")
    func smallValues() {
        var scene = Scene(#"{"l":{"n7":1}}"#)
        for number in 0..<5000 { scene.listen(1, Path(text: "l/n\(number)")) }
        let (_, effects) = scene.engine.execute(
            Command(
                session: SessionID(4), credential: .anonymous, time: 1000,
                operation: .put(Write("l", #"{"n9":1}"#))))
        #expect(!effects.pushes.contains { if case .listens = $0.body { true } else { false } })
        #expect(effects.lines == ["S1 d l/n7 null", "S1 d l/n9 1", "ok"])
        #expect(scene.put(4, "l", "5") == ["S1 d l/n9 null", "ok"])
    }

    @Test("an alteration is found by the order of locations as it is one by one")
    func alterations() {
        var random = SeededGenerator(seed: 7)
        func path(_ lengths: ClosedRange<Int>) -> Path {
            Path((0..<Int.random(in: lengths, using: &random)).map { _ in random.pick(["a", "b", "2"]) })
        }
        for _ in 0..<300 {
            var paths: [Path] = []
            for _ in 0..<Int.random(in: 1...12, using: &random) {
                let new = path(0...3)
                if !paths.contains(where: { $0.contains(new) || new.contains($0) }) { paths.append(new) }
            }
            let alterations = Alterations(paths.map { Alteration(path: $0, old: nil, new: .empty) })
            for _ in 0..<20 {
                let path = path(0...4)
                let expected = paths.first { $0.contains(path) && $0 != path }
                #expect(alterations.above(path)?.path == expected)
            }
        }
    }
}
