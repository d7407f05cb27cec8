import ArgumentParser
import Glibc
import PandoBytes
import PandoRules
import PandoTree

/// What one call of a pure room costs, without sockets.
struct Micro: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "micro", abstract: "Single calls of the pure rooms, in nanoseconds.")

    enum Subject: String, ExpressibleByArgument, CaseIterable {
        case rules
    }

    @Argument(help: "What to measure: \(Subject.allCases.map(\.rawValue).joined(separator: ", ")).")
    var subject = Subject.rules

    @Option(help: "Calls that are measured, after a tenth as many.")
    var rounds = 1_000_000

    func validate() throws {
        guard (1...1_000_000_000).contains(rounds) else {
            throw ValidationError("--rounds must be 1 to 1000000000")
        }
    }

    func run() throws {
        let timings =
            switch subject {
            case .rules: try RulesCase(rounds: rounds).timings()
            }
        for timing in timings { print(timing.text) }
    }
}

/// How much processor time one call took on average: unlike the time that passed, it does not depend on what else the
/// machine is doing.
struct Timing {
    var name: String
    var nanoseconds: Double
    /// How many calls gave the answer they should: all of them. It also keeps the work from being optimised away.
    var rightCount: Int

    var text: String {
        let tenths = Int((nanoseconds * 10).rounded())
        return "\(name): \(tenths / 10).\(tenths % 10) ns (\(rightCount) right)"
    }

    init(_ name: String, rounds: Int, _ body: () -> Bool) {
        self.name = name
        for _ in 0..<(rounds / 10) { _ = body() }
        rightCount = 0
        let start = threadNanoseconds()
        for _ in 0..<rounds where body() { rightCount += 1 }
        nanoseconds = Double(threadNanoseconds() - start) / Double(rounds)
    }
}

/// Processor time of this thread so far.
private func threadNanoseconds() -> Int64 {
    var time = timespec()
    // The clock exists on every Linux, and the pointer is to our own variable.
    _ = unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}

/// The rules of a chat: members read and write, messages have a shape.
struct RulesCase {
    let rounds: Int

    private static let document = #"""
        {"rules": {"rooms": {"$room": {
          ".read": "auth != null && root.child('rooms').child($room).child('members').child(auth.uid).val() == true",
          "messages": {"$message": {
            ".write": "auth != null && root.child('rooms').child($room).child('members').child(auth.uid).val() == true",
            ".validate": "newData.hasChildren(['text', 'at']) && newData.child('text').isString() &&
              newData.child('text').val().length <= 1000 && newData.child('text').val().matches(/^[^<>]+$/)"
          }}
        }}}}
        """#

    /// - Throws: When the rules do not load, which a test would have found.
    func timings() throws -> [Timing] {
        let access = Access.loaded(try Ruleset(loading: Array(Self.document.utf8)))
        var tree = Node.empty
        for room in 0..<100 {
            for member in 0..<50 {
                tree.set(.boolean(true), at: Path(trusted: "rooms/r\(room)/members/user\(member)"))
            }
        }
        let message = try Node(
            json: Array(#"{"text":"Shall we meet at the old oak at noon?","at":1760000000000}"#.utf8).rawSpan)
        let messages = Path(trusted: "rooms/r42/messages")
        let path = Path(trusted: "rooms/r42/messages/-OabcdefghijklmnopqR")
        let written = [path]
        var after = tree
        after.set(message, at: path)
        let member = RuleScope(
            credential: Credential(authVariable: #"{"uid":"user7","provider":"password","token":{}}"#),
            milliseconds: 1_760_000_000_000, root: tree)
        var stranger = member
        stranger.credential = Credential(authVariable: #"{"uid":"nobody","provider":"password","token":{}}"#)
        return [
            Timing("rules, read granted", rounds: rounds) {
                access.allowsRead(at: messages, query: nil, in: member)
            },
            Timing("rules, read denied", rounds: rounds) {
                !access.allowsRead(at: messages, query: nil, in: stranger)
            },
            Timing("rules, message written", rounds: rounds) {
                access.allowsWrite(at: written, after: after, in: member)
            },
            Timing("rules, message denied", rounds: rounds) {
                !access.allowsWrite(at: written, after: after, in: stranger)
            },
        ]
    }
}
