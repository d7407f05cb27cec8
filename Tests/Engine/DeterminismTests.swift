import PandoEngine
import PandoRandom
import PandoRules
import PandoTree
import Testing

/// The same commands give the same effects, in the same order, whatever order a hash table has.
///
/// A Swift table that has grown iterates in another order than one that has not, even with the same members.
/// So one of two engines gets its tables blown up first: thousands of listens, sessions and queued writes
/// come and go, in places where nothing is ever written. What is left must not show.
@Suite struct Determinism {
    @Test(arguments: 0..<20 as Range<UInt64>)
    func effectsDoNotDependOnTableSizes(seed: UInt64) {
        let (plain, grown) = (transcript(seed, isGrown: false), transcript(seed, isGrown: true))
        for (index, (a, b)) in zip(plain, grown).enumerated() where a != b {
            Issue.record("seed \(seed), command \(index):\n\(a)\nbut with grown tables\n\(b)")
            return
        }
        #expect(plain.count == grown.count)
    }

    private static let keys = ["a", "b", "c", "d", "e", "f", "g", "1", "2", "10"]

    private func transcript(_ seed: UInt64, isGrown: Bool) -> [String] {
        var scene = Scene()
        if isGrown { grow(&scene) }
        scene.records = []
        var random = SeededGenerator(seed: seed)
        func path(_ lengths: ClosedRange<Int>) -> String {
            (0..<Int.random(in: lengths, using: &random)).map { _ in random.pick(Self.keys) }.joined(
                separator: "/")
        }
        func json() -> String {
            "{"
                + (0..<4).map { _ in
                    #""\#(random.pick(Self.keys))":\#(Int.random(in: 0...3, using: &random))"#
                }
                .joined(separator: ",") + "}"
        }
        // Distinct names, none below another.
        func entries() -> [(String, String)] {
            Set((0..<4).map { _ in path(1...1) }).sorted().map { ($0, random.chance(30) ? "null" : json()) }
        }
        var lines: [String] = []
        for _ in 0..<150 {
            let session = UInt64.random(in: 1...4, using: &random)
            let said: [String]
            switch Int.random(in: 0..<10, using: &random) {
            case 0, 1, 2: said = scene.listen(session, Path(text: path(0...2)))
            case 3: said = scene.listen(session, Path(text: path(0...1)), #"{"l":2}"#, tag: 1)
            case 4: said = scene.put(session, path(0...2), json())
            case 5, 6: said = scene.merge(session, path(0...1), entries())
            case 7: said = scene.run(session, .onDisconnect(entries().map { Write("q/" + $0.0, $0.1) }))
            case 8: said = scene.unlisten(session, Path(text: path(0...1)))
            default: said = scene.run(session, random.chance(50) ? .endSession : .cancelOnDisconnect("q/a"))
            }
            lines.append(said.joined(separator: "\n"))
        }
        for session: UInt64 in 1...4 {
            let (delta, _) = scene.engine.execute(
                Command(session: SessionID(session), credential: .anonymous, time: 9, operation: .endSession))
            lines.append("\(delta.records(hadQueue: true).map(\.payload))")
        }
        return lines + scene.records.map { "\($0.payload)" }
    }

    private func grow(_ scene: inout Scene) {
        // A point keeps its table for as long as one listen below it stays.
        for prefix in [""] + Self.keys.map({ $0 + "/" }) {
            for number in 0..<300 { scene.listen(1000, Path(text: "\(prefix)ghost\(number)")) }
            for number in 1..<300 { scene.unlisten(1000, Path(text: "\(prefix)ghost\(number)")) }
        }
        for session: UInt64 in 2000..<3000 { scene.listen(session, "ghosts") }
        for session: UInt64 in 2000..<3000 { scene.run(session, .endSession) }
        // And a session's own tables.
        for session: UInt64 in 1...4 {
            for number in 0..<300 { scene.listen(session, Path(text: "ghosts/\(number)")) }
            for number in 0..<300 { scene.unlisten(session, Path(text: "ghosts/\(number)")) }
        }
    }
}
