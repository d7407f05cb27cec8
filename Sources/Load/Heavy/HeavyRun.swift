import PandoReactor
import PandoTime
import PandoTraffic

/// What a run beside heavy operations is asked for. Times are nanoseconds.
struct HeavyPlan {
    /// Where the bystander finds the server; its own part of the plan says how it is asked.
    var hostile: HostilePlan
    var operations: [HeavyOperation]
    var childCount: Int
    var rounds: Int
    /// The bystander's longest wait beside an operation, in the best of all rounds.
    var longestWait: Int
}

/// What was seen in one round of an operation.
struct HeavyRound {
    /// From the first request to the last response.
    var duration = 0
    var measure = BystanderMeasure()
    var longestWait: Int { Int(measure.all.max) }
}

/// The results of a run beside heavy operations.
struct HeavyOutcome {
    var rounds: [(operation: HeavyOperation, rounds: [HeavyRound])] = []
    var problems: [String] = []
    var wasInterrupted = false

    /// The longest wait in the best round: what the machine adds differs from round to round, what the server
    /// adds does not.
    static func longestWait(_ rounds: [HeavyRound]) -> Int { rounds.map(\.longestWait).min() ?? 0 }

    /// What is wrong, a line each.
    func broken(_ plan: HeavyPlan) -> [String] {
        rounds.flatMap { operation, rounds in
            var lines: [String] = []
            let wait = Self.longestWait(rounds)
            if operation != .quiet, wait > plan.longestWait {
                let (seen, allowed) = (
                    BrokenPromise.milliseconds(wait), BrokenPromise.milliseconds(plan.longestWait)
                )
                lines.append("\(operation.rawValue): the bystander waited \(seen) ms; allowed are \(allowed)")
            }
            let unanswered = rounds.reduce(0) { $0 + $1.measure.unanswered + $1.measure.refused }
            if unanswered > 0 {
                lines.append("\(operation.rawValue): \(unanswered) of the bystander's were not done")
            }
            return lines
        } + problems + (rounds.isEmpty ? ["nothing was measured"] : [])
    }
}

/// Runs heavy operations one after the other, each beside a bystander with small ones:
///
///     prepare ─▶ connect ─▶ quiet ─▶ each operation, some rounds of it ─▶ clean up
///        └───────────── a problem, or Ctrl-C ────────────────────────────────▲
///
/// On the main thread's loop; the bystander has a thread of its own.
final class HeavyRun {
    /// Between the call to the bystander and its first operation.
    private static let lead: Duration = .milliseconds(24)
    /// Between the bystander's first operation and the heavy one.
    private static let head = 100_000_000
    /// Between the end of the heavy operation and the end of the round: what it leaves to other threads is
    /// done then.
    private static let tail = 400_000_000
    /// Longest time of one request.
    private static let patience: Duration = .seconds(60)
    /// The phase of the bystander ends when its operation has; longest time.
    private static let longestRound = 60_000_000_000
    /// Indexes are built before the first round.
    private static let settling: Duration = .seconds(3)
    /// The heavy client's thread leaves the processors to server and bystander.
    private static let niceness = 10

    /// A response to a request of an earlier part of the run is not waited for any more.
    private enum Part { case preparing, measuring, cleaningUp, over }

    private let plan: HeavyPlan
    private let loop: EventLoop
    private let link: RESTLink
    private var commands: Mailbox<BystanderCommand>?
    private var outcome = HeavyOutcome()
    private var steps: [(operation: HeavyOperation, round: Int)]
    private var round = HeavyRound()
    private var part = Part.preparing
    private var rulesBefore: [UInt8]?

    /// Runs to the end. Signals must be blocked already.
    static func run(_ plan: HeavyPlan) throws -> HeavyOutcome {
        let run = try HeavyRun(plan)
        let signals = try Signals(on: run.loop) { [unowned run] signal in
            if signal != .hangUp { run.interrupt() }
        }
        return try withExtendedLifetime(signals) { try run.run() }
    }

    private init(_ plan: HeavyPlan) throws {
        self.plan = plan
        loop = try EventLoop()
        link = RESTLink(plan.hostile.site, on: loop)
        steps = plan.operations.flatMap { operation in (0..<plan.rounds).map { (operation, $0) } }
    }

    private func run() throws -> HeavyOutcome {
        let notices = loop.mailbox(of: HostileNotice.self) { [unowned self] batch in
            for notice in batch { handle(notice) }
        }
        let bystander = try Bystander(plan.hostile, notices: notices)
        commands = bystander.loop.mailbox(of: BystanderCommand.self) { [unowned bystander] batch in
            for command in batch { bystander.handle(command) }
        }
        let thread = try NamedThread.start("bystander") { bystander.loop.run() }
        changeNiceness(by: Self.niceness)
        loop.schedule(after: .zero) { [self] in readRules() }
        loop.run()
        bystander.loop.stop()
        thread.join()
        return outcome
    }

    // MARK: Requests

    private func send(_ request: HeavyOperation.Request, then body: @escaping ([UInt8]) -> Void) {
        let own = part
        var isAnswered = false
        loop.schedule(after: Self.patience) { [self] in
            if !isAnswered, part == own {
                end(with: "\(request.method) \(request.path): no response in time")
            }
        }
        link.request(
            request.method, request.path, parameters: request.parameters, isAnonymous: request.isAnonymous,
            request.body
        ) { [self] statusCode, bytes in
            isAnswered = true
            guard part == own else { return }
            guard let statusCode, (200...299).contains(statusCode) else {
                let reply = statusCode.map { "status \($0)" } ?? "no response"
                return end(with: "\(request.method) \(request.path): \(reply)")
            }
            body(bytes)
        }
    }

    private func send(_ requests: ArraySlice<HeavyOperation.Request>, then body: @escaping () -> Void) {
        if part == .preparing, outcome.wasInterrupted { return cleanUp() }
        guard let first = requests.first else { return body() }
        send(first) { [self] _ in send(requests.dropFirst(), then: body) }
    }

    // MARK: Steps

    /// What is there is put back in the end.
    private func readRules() {
        send(HeavyOperation.rulesRequest) { [self] rules in
            rulesBefore = rules
            let requests = HeavyOperation.preparation(at: plan.hostile.site, childCount: plan.childCount)
            send(requests[...]) { [self] in
                loop.schedule(after: Self.settling) { [self] in commands?.post(.connect) }
            }
        }
    }

    private func nextRound() {
        guard let (operation, number) = steps.first else { return cleanUp() }
        let site = plan.hostile.site
        let requests = operation.requests(at: site, round: number, childCount: plan.childCount)
        // What an operation removes is there again in its next round.
        let isRepair = operation == .remove && number > 0
        let repair = isRepair ? HeavyOperation.preparation(at: site, childCount: plan.childCount)[...] : []
        send(repair) { [self] in
            round = HeavyRound()
            let start = Int(truncatingIfNeeded: (MonotonicTime.now + Self.lead).nanoseconds)
            commands?.post(.begin(start: start, end: start + Self.longestRound))
            loop.schedule(after: Self.lead + .nanoseconds(Self.head)) { [self] in
                let began = MonotonicTime.now
                send(requests[...]) { [self] in
                    round.duration = Int(clamping: (MonotonicTime.now - began).nanosecondCount)
                    loop.schedule(after: .nanoseconds(Self.tail)) { [self] in commands?.post(.stop) }
                }
            }
        }
    }

    private func handle(_ notice: HostileNotice) {
        switch notice {
        case .bystanderReady:
            guard part == .preparing else { return }
            part = .measuring
            nextRound()
        case .measured(let measure): record(measure)
        case .cut(let words), .broken(let words): end(with: words)
        case .checked, .honestFinished, .attackStopped: break
        }
    }

    private func record(_ measure: BystanderMeasure) {
        guard part == .measuring, !steps.isEmpty else { return }
        let (operation, _) = steps.removeFirst()
        round.measure = measure
        if let index = outcome.rounds.firstIndex(where: { $0.operation == operation }) {
            outcome.rounds[index].rounds.append(round)
        } else {
            outcome.rounds.append((operation, [round]))
        }
        nextRound()
    }

    // MARK: The end

    private func cleanUp() {
        guard part == .preparing || part == .measuring else { return }
        part = .cleaningUp
        send(HeavyOperation.Request(method: "DELETE", path: plan.hostile.site.root)) { [self] _ in
            guard let rulesBefore else { return over() }
            send(HeavyOperation.restoredRules(rulesBefore)) { [self] _ in over() }
        }
    }

    /// The round in progress is the last one. A second time: nothing more is waited for.
    private func interrupt() {
        guard !outcome.wasInterrupted else { return over() }
        outcome.wasInterrupted = true
        steps = Array(steps.prefix(1))
    }

    private func end(with words: String) {
        guard part != .over else { return }
        outcome.problems.append(words)
        if part == .cleaningUp { over() } else { cleanUp() }
    }

    private func over() {
        guard part != .over else { return }
        part = .over
        loop.stop()
    }
}
