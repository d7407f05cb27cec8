import Glibc
import PandoReactor
import PandoTime

/// Runs the steps of a run on the main thread's loop. A step begins when all workers have ended the one
/// before, or when nothing has moved for ``Plan/patience``.
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
    /// Workers whose part of a limited run has ended.
    private var limitedCount = 0
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
    static func run(_ plan: Plan, _ parts: WorkerParts, showsProgress: Bool) throws -> Outcome {
        let coordinator = try Coordinator(plan, parts, showsProgress: showsProgress)
        let signals = try Signals(on: coordinator.loop) { [unowned coordinator] signal in
            if signal != .hangUp { coordinator.interrupt() }
        }
        let threads = try coordinator.workers.map { worker in
            try NamedThread.start("pando-load") { worker.loop.run() }
        }
        coordinator.send(.seed)
        coordinator.watch()
        withExtendedLifetime(signals) { coordinator.loop.run() }
        for worker in coordinator.workers { worker.loop.stop() }
        for thread in threads { thread.join() }
        return coordinator.outcome()
    }

    private init(_ plan: Plan, _ parts: WorkerParts, showsProgress: Bool) throws {
        self.plan = plan
        let origin = MonotonicTime.now.nanoseconds
        self.origin = origin
        let loop = try EventLoop()
        self.loop = loop
        let leaveTimes = LeaveTimes()
        workers = try (0..<plan.threads).map {
            try Worker($0, plan, parts, origin: origin, leaveTimes: leaveTimes)
        }
        progress = showsProgress ? Progress(plan) : nil
        let commands = workers.map { worker in
            worker.loop.mailbox(of: Command.self) { batch in
                for command in batch { worker.handle(command) }
            }
        }
        let notices = loop.mailbox(of: Notice.self) { [unowned self] batch in
            for notice in batch { handle(notice) }
        }
        for worker in workers {
            worker.commands = commands
            worker.notices = notices
        }
        memoryBefore = plan.serverProcess.flatMap(residentByteCount)
    }

    private var now: Int { Int(truncatingIfNeeded: MonotonicTime.now.nanoseconds &- origin) }

    private func send(_ command: Command) {
        for worker in workers { worker.commands[worker.index].post(command) }
    }

    /// Sends the command that begins a step of all workers.
    private func beginStep(_ command: Command) {
        doneCount = 0
        send(command)
    }

    // MARK: Steps

    private func handle(_ notice: Notice) {
        switch notice {
        case .broken(let words):
            guard step.rawValue < Step.running.rawValue else { return }
            findings.add(\.lostConnections, 0, words)
            end(with: "the run could not begin: \(words)")
        case .progress(let interval):
            intervals[
                interval.second,
                default: Interval(second: interval.second, seriesCount: plan.series.count)
            ]
            .merge(interval)
            show(interval.second)
        case .done(let phase): advance(phase)
        case .limitReached:
            limitedCount += 1
            if limitedCount == workers.count, step == .running { stop() }
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
            beginStep(.connect)
        case .connecting: begin()
        case .running: stop()
        case .draining:
            enter(.checking)
            beginStep(.check)
        case .checking:
            enter(.finishing)
            var published: [Int: Int] = [:]
            for worker in workers { published.merge(worker.publishedAtRest, uniquingKeysWith: +) }
            beginStep(.finish(published))
        case .finishing:
            enter(.closing)
            beginStep(.close)
        case .closing:
            enter(.cleaning)
            doneCount = 0
            workers[0].commands[0].post(.cleanUp)
        case .cleaning: finish()
        case .over: break
        }
    }

    private func begin() {
        enter(.running)
        if let memoryBefore, let process = plan.serverProcess, let after = residentByteCount(of: process) {
            memory = (memoryBefore, after)
        }
        // Shortly after now, so that all workers begin together.
        start = now + 20_000_000
        beginStep(.start(at: start))
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
        beginStep(.stop)
    }

    private func finish() {
        enter(.over)
        progress?.clear()
        loop.stop()
    }

    private func end(with words: String) {
        findings.add(\.unanswered, words)
        finish()
    }

    /// Ctrl-C: the run ends early and reports what it has measured. A second Ctrl-C ends it at once.
    private func interrupt() {
        defer { wasInterrupted = true }
        switch step {
        case .running where !wasInterrupted: stop()
        case .seeding, .connecting: finish()
        default: if wasInterrupted { finish() }
        }
    }

    /// Checks every quarter of the patience whether something has moved: a server may have lost a message or
    /// hang.
    private func watch() {
        loop.schedule(after: .nanoseconds(plan.patience / 4)) { [self] in
            guard step != .over else { return }
            // The workers change it meanwhile: only whether it has changed counts.
            let movement = workers.reduce(0) { $0 &+ $1.context.movementSeen }
            if movement != lastMovement { (lastMovement, stepStarted) = (movement, .now) }
            if stepStarted + .nanoseconds(plan.patience) < .now { endStalledStep() }
            watch()
        }
    }

    /// Nothing has moved for the patience of the plan: what is missing counts as lost.
    private func endStalledStep() {
        stepStarted = .now
        let words =
            "nothing moved for \(Figures.decimal(Double(plan.patience) / 1e9, places: 1)) s while \(step)"
        switch step {
        case .seeding, .connecting: end(with: words)
        case .running: if movesAlways { stop() }
        // Operations without a response are counted when the check begins.
        case .draining: proceed()
        case .checking, .finishing, .closing, .cleaning:
            findings.add(\.unanswered, words)
            proceed()
        case .over: break
        }
    }

    /// Something moves throughout the run. At a low rate nothing is due for long; idle connections, and those
    /// that wait for the server to be started again, send nothing.
    private var movesAlways: Bool {
        switch plan.work {
        case .idle, .restart: false
        case .fanOut, .writes, .chat, .counter, .query, .presence, .reconnectStorm, .rest: plan.pattern == nil
        }
    }

    // MARK: Results

    private func show(_ second: Int) {
        guard let progress, step == .running, let interval = intervals[second] else { return }
        let latencies = merged(intervals.values.map { $0 }, series: nil)
        progress.show(
            second: second, interval, latencies, problems: workers.reduce(0) { $0 &+ $1.context.errorsSeen })
    }

    /// Latencies of some seconds, of one series or of the first that has any.
    private func merged(_ intervals: [Interval], series: Int?) -> Latencies {
        var sum = makeLatencies()
        let chosen =
            series ?? plan.series.indices.last { index in
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
            findings.merge(worker.context.findings)
            lag.add(worker.context.statistics.lag)
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
        defer { for worker in workers { worker.release() } }
        return Outcome(
            plan: plan, seconds: Double(window) / 1e9,
            operations: workers.reduce(0) { $0 + $1.context.statistics.measuredOperationCount },
            deliveries: workers.reduce(0) { $0 + $1.context.statistics.measuredDeliveryCount },
            httpRequests: workers.reduce(0) { $0 + $1.context.statistics.measuredRequestCount },
            totalOperations: workers.reduce(0) { $0 + $1.context.statistics.operationCount },
            totalDeliveries: workers.reduce(0) { $0 + $1.context.statistics.deliveryCount },
            checksum: workers.reduce(0) { $0 &+ $1.context.statistics.checksum },
            retries: workers.reduce(0) { $0 + $1.context.statistics.retryCount },
            unsent: workers.reduce(0) { $0 + $1.unsentCount },
            series: plan.series.enumerated().map { ($1, merged(all, series: $0)) },
            lag: lag, timeline: timeline, findings: findings,
            ownLoad: Double(ownNanoseconds) / Double(window),
            serverLoad: serverNanoseconds.map { Double($0) / Double(window) },
            serverMemory: memory, wasInterrupted: wasInterrupted,
            leftBehind: isCleaned && !workers.contains(where: \.leftDataBehind) ? nil : "/" + plan.root)
    }
}
