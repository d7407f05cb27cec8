import Glibc
import PandoReactor
import PandoTime
import PandoTraffic

/// Runs the phases of a hostile run, on the main thread's loop.
///
///     prepare ─▶ connect ─▶ quiet ─▶ honest ─▶ each attacker ─▶ together ─▶ control ─▶ finish ─▶ check ─▶
///     clean up
///
/// A phase begins when the one before was measured: every operation was answered, or waited for as long as
/// ``HostilePlan/patience`` says, and the server's memory has come down or had its time to.
final class HostileRun {
    /// How often the server's memory is read.
    private static let memoryPause: Duration = .milliseconds(24)
    /// Between the call to all threads and the first operation of a phase.
    private static let phaseLead: Duration = .milliseconds(24)
    /// The length of the phase before the quiet one.
    private static let warmUp = 500_000_000
    /// The time that a request of the preparation or of the clean-up may take.
    private static let requestPatience: Duration = .seconds(60)
    /// Added to the niceness of the bystander's thread where that is allowed: it needs little, and what it
    /// waits for a processor would count as the server's.
    private static let bystanderNiceness = -10
    /// Descriptors that floods leave to everything else: the other attackers have some 1050 connections.
    private static let descriptorReserve = 1536

    private let plan: HostilePlan
    private let loop: EventLoop
    private let link: RESTLink
    private var commands: Mailbox<BystanderCommand>?
    private var notices: Mailbox<HostileNotice>?
    private var honest: HonestClients?
    private var attackThreads: [AttackThread] = []
    private var outcome: HostileOutcome
    private var steps: [HostileStep]
    /// The phase under way; nil between phases and before the first.
    private var current: HostilePhaseInProgress?
    private var server: ServerWatch
    private var isOver = false
    /// Counts waits with a deadline; an older one that is over means nothing.
    private var waitNumber = 0
    /// The honest clients' threads were asked to finish.
    private var isFinishing = false
    private var isChecking = false
    private var isCleaning = false
    private let showsProgress = isatty(STDERR_FILENO) == 1

    /// Runs to the end. Blocks; every wait has a deadline. Signals must be blocked already.
    /// - Throws: When there are no loops or threads to be had.
    static func run(_ plan: HostilePlan) throws -> HostileOutcome {
        let run = try HostileRun(plan)
        let signals = try Signals(on: run.loop) { [unowned run] signal in
            if signal != .hangUp { run.interrupt() }
        }
        return try withExtendedLifetime(signals) { try run.run() }
    }

    private init(_ plan: HostilePlan) throws {
        self.plan = plan
        loop = try EventLoop()
        link = RESTLink(plan.site, on: loop)
        outcome = HostileOutcome(limits: plan.limits, leftBehind: "/" + plan.site.root)
        server = ServerWatch(plan.serverProcess)
        steps = HostileStep.all(of: plan)
    }

    private func run() throws -> HostileOutcome {
        let notices = loop.mailbox(of: HostileNotice.self) { [unowned self] batch in
            for notice in batch { handle(notice) }
        }
        let bystander = try Bystander(plan, notices: notices)
        let honest = try HonestClients(plan, notices: notices)
        (self.honest, self.notices) = (honest, notices)
        commands = bystander.loop.mailbox(of: BystanderCommand.self) { [unowned bystander] batch in
            for command in batch { bystander.handle(command) }
        }
        attackThreads = try (0..<plan.attackThreads).map { _ in try AttackThread(plan.site) }
        let threads = [
            try NamedThread.start("bystander") {
                changeNiceness(by: Self.bystanderNiceness)
                bystander.loop.run()
            },
            try NamedThread.start("honest") { honest.loop.run() },
        ]
        for thread in attackThreads { try thread.run(niceness: plan.attackerNiceness) }
        watchMemory()
        loop.schedule(after: .zero) { [self] in prepare() }
        loop.run()
        for thread in attackThreads { thread.end() }
        bystander.loop.stop()
        honest.loop.stop()
        for thread in threads { thread.join() }
        honest.end()
        return outcome
    }

    private func show(_ words: String) {
        if showsProgress { writeAll("\r\u{1B}[K\(words)", to: STDERR_FILENO) }
    }

    private func problem(_ words: String) { outcome.problems.append(words) }

    /// Calls `body` after `wait`, unless ``proceeded()`` was called before.
    private func unlessProceeded(after wait: Duration, _ body: @escaping () -> Void) {
        waitNumber += 1
        let number = waitNumber
        loop.schedule(after: wait) { [self] in
            if number == waitNumber, !isOver { body() }
        }
    }

    private func proceeded() { waitNumber += 1 }

    // MARK: Preparation

    private var neededData: [PreparedData] {
        var needed = plan.attackers.reduce(into: Set<PreparedData>()) { $0.formUnion($1.needs) }
        if plan.honest.contains(.slowDownload) { needed.insert(.large12MB) }
        if plan.honest.contains(.slowPush) || plan.honest.contains(.burst) { needed.insert(.large5MB) }
        return PreparedData.allCases.filter(needed.contains)
    }

    private func prepare() {
        show("writing the data")
        let writes = neededData.flatMap { data in (0..<data.writeCount).map { (data, $0) } }
        unlessProceeded(after: Self.requestPatience * max(1, writes.count)) { [self] in
            end(with: "the data was not written in time")
        }
        prepare(writes[...])
    }

    private func prepare(_ writes: ArraySlice<(PreparedData, Int)>) {
        guard !isOver else { return }
        guard let (data, index) = writes.first else { return connect() }
        let write = data.write(index, at: plan.site)
        link.request(write.method, write.path, write.body) { [self] statusCode, _ in
            guard let statusCode, (200...299).contains(statusCode) else {
                seeWhetherServerLives()
                let reply = statusCode.map { "status \($0)" } ?? "no reply"
                return end(with: "\(data.rawValue) could not be written: \(reply)")
            }
            prepare(writes.dropFirst())
        }
    }

    private func connect() {
        unlessProceeded(after: .nanoseconds(plan.patience)) { [self] in
            end(with: "the bystander could not connect")
        }
        commands?.post(.connect)
    }

    // MARK: Phases

    private func handle(_ notice: HostileNotice) {
        switch notice {
        // The reason may be that the server is gone: that is looked at first, and said once.
        case .cut, .broken: seeWhetherServerLives()
        case .bystanderReady, .measured, .attackStopped, .honestFinished, .checked: break
        }
        switch notice {
        case .bystanderReady:
            proceeded()
            nextPhase()
        case .measured(let measure):
            current?.measured(measure)
            settleIfDone()
        case .attackStopped(let report):
            current?.reported(report)
            settleIfDone()
        case .cut(let words): cut(words)
        case .honestFinished(let work, let problems):
            guard isFinishing else { return }
            outcome.honestWork = work
            for words in problems { problem(words) }
            check()
        case .checked(let count, let lost):
            guard isChecking, !isCleaning else { return }
            (outcome.checkedWrites, outcome.lostWrites) = (count, lost)
            cleanUp()
        case .broken(let words):
            guard isChecking else { return end(with: words) }
            if !isCleaning {
                problem(words)
                cleanUp()
            }
        }
    }

    private func cut(_ words: String) {
        // A server that is gone has cut all connections: that is said once.
        guard server.isAlive else { return }
        if current != nil {
            current?.phase.cuts.append(words)
        } else if let last = outcome.phases.indices.last {
            outcome.phases[last].cuts.append(words)
        } else {
            problem("an honest client was cut before the quiet phase: \(words)")
        }
    }

    private func nextPhase() {
        guard !isOver else { return }
        guard server.isAlive, !outcome.wasInterrupted, !steps.isEmpty else { return finish() }
        let step = steps.removeFirst()
        show("\(step.name), \(steps.count) phases to come")
        current = HostilePhaseInProgress(step, serverLives: server.isAlive)
        server.beginPhase()
        // Before the phase's time begins: bursts of some megabytes are written here.
        let roles = roles(of: step)
        if step.name == "honest" { honest?.start() }
        if step.actsHonestly { honest?.act() }
        let start = MonotonicTime.now + Self.phaseLead
        let duration = step.isWarmUp ? min(Self.warmUp, plan.phaseDuration) : plan.phaseDuration
        commands?.post(.begin(start: nanoseconds(start), end: nanoseconds(start) + duration))
        startAttack(step, roles)
        unlessProceeded(after: Self.phaseLead + .nanoseconds(duration)) { [self] in endPhase() }
    }

    private func nanoseconds(_ moment: MonotonicTime) -> Int { Int(truncatingIfNeeded: moment.nanoseconds) }

    /// What each of ``attackThreads`` is to do.
    private func roles(of step: HostileStep) -> [[AttackRole]] {
        let floods = max(1, step.attackers.count(where: \.isFlood))
        let share = max(1, (descriptorLimit() - Self.descriptorReserve - plan.slowReaders) / floods)
        var roles = attackThreads.map { _ in [AttackRole]() }
        for (turn, role) in step.attackers.flatMap({ $0.roles(at: plan.site, share: share) }).enumerated() {
            roles[turn % roles.count].append(role)
        }
        return roles
    }

    private func startAttack(_ step: HostileStep, _ roles: [[AttackRole]]) {
        if step.kind == .control {
            let load = outcome.phases.map(\.attackerLoad).max() ?? 0
            for thread in attackThreads { thread.burn(share: load / Double(attackThreads.count)) }
            current?.attackThreads = attackThreads
            return
        }
        for (thread, own) in zip(attackThreads, roles) where !own.isEmpty {
            thread.start(own)
            current?.attackThreads.append(thread)
        }
    }

    private func endPhase() {
        guard let threads = current?.end() else { return }
        for thread in threads {
            thread.stop { [notices] report in _ = notices?.post(.attackStopped(report)) }
        }
        settleIfDone()
    }

    /// Once everything was measured: waits until the memory has come down.
    private func settleIfDone() {
        guard current?.beginSettling() == true else { return }
        proceeded()
        settle(until: .now + .nanoseconds(plan.settling))
    }

    private func settle(until deadline: MonotonicTime) {
        let memory = server.memory
        let allowed = outcome.memoryStart.map(plan.limits.memoryAllowedAfter(start:)) ?? .max
        if server.isAlive, let memory, memory > allowed, .now < deadline, !isOver {
            loop.schedule(after: Self.memoryPause) { [self] in settle(until: deadline) }
            return
        }
        record(memoryAfter: memory)
        nextPhase()
    }

    private func record(memoryAfter: Int?) {
        guard let ending = current.take() else { return }
        var done = ending.finished(duration: plan.phaseDuration)
        // Of a server elsewhere this is all that shows whether it is there.
        done.serverLives = server.process == nil ? done.measure.isConnected : server.isAlive
        done.memoryAfter = memoryAfter
        done.memoryPeak = server.peak(including: memoryAfter)
        guard !ending.isWarmUp || !done.serverLives else { return }
        // The honest clients stay: what they hold is there before the attackers come.
        if ending.isBeforeAttacks {
            outcome.memoryStart = memoryAfter
        } else {
            done.memoryStart = outcome.memoryStart
        }
        outcome.phases.append(done)
    }

    // MARK: The server

    private func watchMemory() {
        loop.schedule(after: Self.memoryPause) { [self] in
            guard !isOver else { return }
            seeWhetherServerLives()
            watchMemory()
        }
    }

    private func seeWhetherServerLives() {
        if !isOver, server.look() { serverDied() }
    }

    private func serverDied() {
        if current != nil {
            commands?.post(.giveUp)
            endPhase()
        } else {
            end(
                with: outcome.phases.isEmpty
                    ? "the server is gone before the quiet phase" : "the server is gone at the end")
        }
    }

    // MARK: The end

    private func finish() {
        guard !isFinishing else { return }
        isFinishing = true
        show("reading back")
        guard server.isAlive, outcome.phases.count > 1, !plan.honest.isEmpty else { return check() }
        unlessProceeded(after: .nanoseconds(plan.patience)) { [self] in
            problem("the honest clients' last reads were not answered in time")
            check()
        }
        honest?.finish()
    }

    private func check() {
        guard !isChecking else { return }
        isChecking = true
        proceeded()
        guard server.isAlive else { return over() }
        unlessProceeded(after: .nanoseconds(plan.patience)) { [self] in
            problem("the bystander's writes were not read back in time")
            cleanUp()
        }
        commands?.post(.check)
    }

    private func cleanUp() {
        guard !isOver, !isCleaning else { return }
        isCleaning = true
        proceeded()
        show("removing the data")
        unlessProceeded(after: Self.requestPatience) { [self] in over() }
        link.request("DELETE", plan.site.root) { [self] statusCode, _ in
            if let statusCode, (200...299).contains(statusCode) { outcome.leftBehind = nil }
            over()
        }
    }

    private func end(with words: String) {
        guard !isOver else { return }
        problem(words)
        over()
    }

    private func over() {
        guard !isOver else { return }
        isOver = true
        if showsProgress { writeAll("\r\u{1B}[K", to: STDERR_FILENO) }
        loop.stop()
    }

    /// Ctrl-C: the run ends after this phase. A second Ctrl-C ends it at once.
    private func interrupt() {
        guard !outcome.wasInterrupted else { return over() }
        outcome.wasInterrupted = true
        guard current != nil else {
            if outcome.phases.isEmpty { over() }
            return
        }
        proceeded()
        commands?.post(.stop)
        endPhase()
    }
}
