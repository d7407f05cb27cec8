import Glibc
import PandoReactor
import PandoTraffic

/// Leads the workers through a run, on the main thread's loop: each step begins when all of them have ended
/// the one before, or when nothing has moved for so long that what is missing will not come.
///
///     seed ─▶ connect ─▶ start ─ (time, Ctrl-C) ─▶ stop ─▶ check ─▶ finish ─▶ close ─▶ clean up ─▶ over
final class Coordinator {
    private enum Step: Int {
        case seeding, connecting, running, draining, checking, finishing, closing, cleaning, over
    }

    private let plan: Plan
    private let loop: EventLoop
    private let workers: [Worker]
    private let origin: UInt64
    private let progress: Progress?
    private var step = Step.seeding
    private var doneCount = 0
    private var intervals: [Int: Interval] = [:]
    private var start = 0
    private var measuredEnd = 0
    private var before: (own: UInt64, server: UInt64?) = (0, nil)
    private var after: (own: UInt64, server: UInt64?) = (0, nil)
    private var memory: (before: Int, after: Int)?
    private var memoryBefore: Int?
    private var wasInterrupted = false
    private var findings = Findings()
    private var isCleaned = false
    private var stepStarted = MonotonicTime.now
    private var lastMovement = -1

    /// Runs to the end. Blocks; every wait has a deadline. Signals must be blocked already.
    /// - Throws: When there are no loops or threads to be had.
    static func run(_ plan: Plan, showsProgress: Bool) throws -> Outcome {
        let coordinator = try Coordinator(plan, showsProgress: showsProgress)
        let signals = try Signals(on: coordinator.loop) { [unowned coordinator] signal in
            if signal != .hangUp { coordinator.interrupt() }
        }
        let threads = try coordinator.workers.map { worker in
            try NamedThread.start("pando-load") { worker.loop.run() }
        }
        coordinator.tell { _ in
            true
        } command: { _ in
            .seed
        }
        coordinator.watch()
        withExtendedLifetime(signals) { coordinator.loop.run() }
        for worker in coordinator.workers { worker.loop.stop() }
        for thread in threads { thread.join() }
        return coordinator.outcome()
    }

    private init(_ plan: Plan, showsProgress: Bool) throws {
        self.plan = plan
        let origin = MonotonicTime.now.nanoseconds
        self.origin = origin
        let loop = try EventLoop()
        self.loop = loop
        let board = Board()
        workers = try (0..<plan.threads).map { try Worker($0, plan, origin: origin, board: board) }
        progress = showsProgress ? Progress(plan) : nil
        let commands = workers.map { worker in
            worker.loop.mailbox(of: Command.self) { batch in
                for command in batch { worker.handle(command) }
            }
        }
        let notices = loop.mailbox(of: Notice.self) { [unowned self] batch in
            for notice in batch { take(notice) }
        }
        for worker in workers {
            worker.commands = commands
            worker.notices = notices
        }
        memoryBefore = plan.serverProcess.flatMap(residentByteCount)
    }

    private var now: Int { Int(truncatingIfNeeded: MonotonicTime.now.nanoseconds &- origin) }

    private func tell(_ which: (Int) -> Bool, command: (Int) -> Command) {
        for worker in workers where which(worker.index) {
            worker.commands[worker.index].post(command(worker.index))
        }
    }

    private func tellAll(_ command: Command) {
        doneCount = 0
        tell({ _ in true }) { _ in command }
    }

    // MARK: Steps

    private func take(_ notice: Notice) {
        switch notice {
        case .broken(let words):
            guard step.rawValue < Step.running.rawValue else { return }
            findings.add(\.lostConnections, 0, words)
            end(with: "the run could not begin: \(words)")
        case .progress(let interval):
            intervals[
                interval.second,
                default: Interval(second: interval.second, seriesCount: plan.work.series.count)
            ]
            .merge(interval)
            show(interval.second)
        case .done(let phase): advance(phase)
        }
    }

    private func advance(_ phase: Worker.Phase) {
        let expected: Worker.Phase
        switch step {
        case .seeding: expected = .seeded
        case .connecting: expected = .ready
        case .draining: expected = .drained
        case .checking: expected = .checked
        case .finishing: expected = .finished
        case .closing: expected = .closed
        case .cleaning: expected = .cleaned
        case .running, .over: return
        }
        guard phase == expected else { return }
        doneCount += 1
        let isAlone = phase == .seeded || phase == .cleaned
        guard doneCount == (isAlone ? 1 : workers.count) else { return }
        if phase == .cleaned { isCleaned = true }
        proceed()
    }

    private func enter(_ next: Step) {
        step = next
        stepStarted = .now
    }

    private func proceed() {
        switch step {
        case .seeding:
            enter(.connecting)
            tellAll(.connect)
        case .connecting: begin()
        case .running: stop()
        case .draining:
            enter(.checking)
            tellAll(.check)
        case .checking:
            enter(.finishing)
            var published: [Int: Int] = [:]
            for worker in workers { published.merge(worker.publishedAtRest, uniquingKeysWith: +) }
            tellAll(.finish(published))
        case .finishing:
            enter(.closing)
            tellAll(.close)
        case .closing:
            enter(.cleaning)
            doneCount = 0
            tell({ $0 == 0 }) { _ in .cleanUp }
        case .cleaning: over()
        case .over: break
        }
    }

    private func begin() {
        enter(.running)
        if let memoryBefore, let process = plan.serverProcess, let after = residentByteCount(of: process) {
            memory = (memoryBefore, after)
        }
        // A moment from now, so that all workers begin together.
        start = now + 20_000_000
        tellAll(.start(at: start))
        loop.schedule(after: .nanoseconds(20_000_000 + plan.warmUp)) { [self] in
            if step == .running { before = processorTimes() }
        }
        loop.schedule(after: .nanoseconds(20_000_000 + plan.warmUp + plan.duration)) { [self] in
            if step == .running { stop() }
        }
        before = processorTimes()
    }

    private func processorTimes() -> (own: UInt64, server: UInt64?) {
        (processorNanoseconds(of: 0) ?? 0, plan.serverProcess.flatMap { processorNanoseconds(of: $0) })
    }

    private func stop() {
        after = processorTimes()
        measuredEnd = now
        enter(.draining)
        tellAll(.stop)
    }

    private func over() {
        enter(.over)
        progress?.clear()
        loop.stop()
    }

    private func end(with words: String) {
        findings.add(\.unanswered, words)
        over()
    }

    /// Ctrl-C: the run ends early and says what it has seen; once more, and it ends at once.
    private func interrupt() {
        defer { wasInterrupted = true }
        switch step {
        case .running where !wasInterrupted: stop()
        case .seeding, .connecting: over()
        default: if wasInterrupted { over() }
        }
    }

    /// Nobody waits for ever: not for a server that has lost a message, nor for one that has hung.
    private func watch() {
        loop.schedule(after: .nanoseconds(plan.patience / 4)) { [self] in
            guard step != .over else { return }
            // Read beside the workers' threads: only whether it has changed counts.
            let movement = workers.reduce(0) { $0 &+ $1.movementSeen }
            if movement != lastMovement { (lastMovement, stepStarted) = (movement, .now) }
            if stepStarted + .nanoseconds(plan.patience) < .now { stoodStill() }
            watch()
        }
    }

    /// Nothing has moved for too long: what is missing will not come.
    private func stoodStill() {
        stepStarted = .now
        let words =
            "nothing moved for \(Figures.decimal(Double(plan.patience) / 1e9, places: 1)) s while \(step)"
        switch step {
        case .seeding, .connecting: end(with: words)
        // At a rate nothing may be due for long, and idle connections do nothing at all.
        case .running: if isClosedLoop { stop() }
        // What has no answer is counted when the check begins.
        case .draining: proceed()
        case .checking, .finishing, .closing, .cleaning:
            findings.add(\.unanswered, words)
            proceed()
        case .over: break
        }
    }

    private var isClosedLoop: Bool {
        if case .idle = plan.work { false } else { plan.pattern == nil }
    }

    // MARK: Results

    private func show(_ second: Int) {
        guard let progress, step == .running, let interval = intervals[second] else { return }
        let latencies = merged(intervals.values.map { $0 }, series: nil)
        progress.show(
            second: second, interval, latencies, problems: workers.reduce(0) { $0 &+ $1.errorsSeen })
    }

    /// Latencies of some seconds, of one series or of the first that has any.
    private func merged(_ intervals: [Interval], series: Int?) -> Latencies {
        var sum = makeLatencies()
        let chosen =
            series ?? plan.work.series.indices.last { index in
                intervals.contains { $0.latencies[index] != nil }
            } ?? 0
        for interval in intervals {
            if let latencies = interval.latencies[chosen] { sum.add(latencies) }
        }
        return sum
    }

    /// After the workers' threads have ended.
    private func outcome() -> Outcome {
        let measuredStart = start + plan.warmUp
        let window = max(1, min(measuredEnd, measuredStart + plan.duration) - measuredStart)
        let all = Array(intervals.values)
        var lag = makeLatencies()
        for worker in workers {
            findings.merge(worker.findings)
            lag.add(worker.tally.lag)
        }
        let timeline = intervals.keys.sorted().compactMap { key -> Second? in
            guard let interval = intervals[key] else { return nil }
            let latencies = merged([interval], series: nil)
            let hasAny = latencies.totalCount > 0
            return Second(
                second: key, operations: interval.operations, deliveries: interval.deliveries,
                errors: interval.errors, p50: hasAny ? latencies.microseconds(at: 50) : nil,
                p99: hasAny ? latencies.microseconds(at: 99) : nil)
        }
        let ownNanoseconds = after.own >= before.own ? after.own - before.own : 0
        let serverNanoseconds = after.server.flatMap { end in before.server.map { end >= $0 ? end - $0 : 0 } }
        defer { for worker in workers { worker.letGo() } }
        return Outcome(
            plan: plan, seconds: Double(window) / 1e9,
            operations: workers.reduce(0) { $0 + $1.tally.measuredOperationCount },
            deliveries: workers.reduce(0) { $0 + $1.tally.measuredDeliveryCount },
            httpRequests: workers.reduce(0) { $0 + $1.tally.measuredRequestCount },
            totalOperations: workers.reduce(0) { $0 + $1.tally.operationCount },
            totalDeliveries: workers.reduce(0) { $0 + $1.tally.deliveryCount },
            retries: workers.reduce(0) { $0 + $1.tally.retryCount },
            unsent: workers.reduce(0) { $0 + $1.unsentCount },
            series: plan.work.series.enumerated().map { ($1, merged(all, series: $0)) },
            lag: lag, timeline: timeline, findings: findings,
            ownLoad: Double(ownNanoseconds) / Double(window),
            serverLoad: serverNanoseconds.map { Double($0) / Double(window) },
            serverMemory: memory, wasInterrupted: wasInterrupted,
            leftBehind: isCleaned && !workers.contains(where: \.leftDataBehind) ? nil : "/" + plan.root)
    }
}
