import Logging
import PandoEngine
import PandoJournal
import PandoServer
import PandoStorage
import PandoSimulatedDisk

// The server is started, on whatever its last life and the world have left of the disk.

extension Simulation {
    func start(after loss: Checker.Loss, wasStopped: Bool) throws {
        var (loss, wasStopped) = (loss, wasStopped)
        var flipped: [(name: String, bit: Int)] = []
        if plan.hasRot, random.chance(50) {
            let files = disk.contents.filter { !$0.value.isEmpty }.sorted { $0.key < $1.key }
            for _ in 0..<random.pick([1, 1, 3]) where !files.isEmpty {
                let file = random.pick(files)
                let bit = Int.random(in: 0..<file.value.count * 8, using: &random)
                disk.flipBit(of: file.key, at: bit)
                flipped.append((file.key, bit))
                totals.flippedBits += 1
                note("bit \(bit) of \(file.key) flips")
            }
        }
        disk.capacity = .max
        var attempts: [Int64] = []
        for attempt in 0... {
            // A start that fails stamps a time on the ends of sessions, which nobody tells while the clock is
            // behind.
            isQuiet = attempt > 2 || environment.wallMilliseconds < checker.clock
            hasFailedOperation = false
            operationsLeft = !isQuiet && random.chance(15) ? Int.random(in: 0..<30, using: &random) : nil
            if random.chance(30) { advanceTime() }
            do {
                server = try makeServer()
                break
            } catch {
                server = nil
                attempts.append(environment.wallMilliseconds)
                note("no start: \(error)")
                totals.refusedStarts += 1
                if disk.hasCrashed || hasFailedOperation {
                    let new = try end(isPowerCut: random.chance(50))
                    // What was stopped in order is on the disk, all of it.
                    if !wasStopped { loss = max(loss, new) }
                } else if case .badData? = error as? StorageError, !flipped.isEmpty {
                    for (name, bit) in flipped { disk.flipBit(of: name, at: bit) }
                    flipped = []
                } else {
                    throw BrokenPromise(description: "the server does not start: \(error)")
                }
            }
        }
        isQuiet = true
        operationsLeft = nil
        totals.lives += 1
        if !flipped.isEmpty {
            loss = flipped.count > 1 || plan.durability != .always ? .anything : max(loss, .unmarked)
            wasStopped = false
        }
        try lookAround(after: loss, wasStopped: wasStopped, attempts: attempts)
        isQuiet = false
    }

    private func makeServer() throws -> SteppedServer<SimulatedDisk> {
        var configuration = Configuration()
        configuration.isDevelopment = true
        configuration.storage.durability = plan.durability
        configuration.storage.checkpointByteLimit = plan.checkpointByteLimit
        configuration.storage.minimumReservedByteCount = plan.lowRoomByteCount
        configuration.sessionEndReserveByteCount = plan.spareRoomByteCount
        var options = JournalOptions()
        options.segmentByteLimit = plan.segmentByteLimit
        options.reservationByteCount = plan.reservationByteCount
        return try SteppedServer(
            on: disk, configuration, journalOptions: options,
            outputByteLimit: plan.hasSlowLoops ? 600 : 1 << 30,
            environment: .scripted(environment),
            logger: Logger(label: "simulated") { _ in SwiftLogNoOpLogHandler() })
    }

    /// Reads everything there is, and holds it against what was promised.
    private func lookAround(after loss: Checker.Loss, wasStopped: Bool, attempts: [Int64]) throws {
        guard let server else { return }
        sessionCount = 0
        (flooders, presenceNumbers, namespacesWithLargeNode, delayed) = ([], [:], [], Delayed())
        let wall = environment.wallMilliseconds
        var seen = ReferenceState()
        let probe = nextSession()
        server.open(probe, namespace: Self.namespaces[0], as: .admin)
        var readers: [SessionID: (name: String, isRules: Bool)] = [:]
        func read(_ name: String, isRules: Bool) throws {
            let session = nextSession()
            readers[session] = (name, isRules)
            let target = isRules ? "/.settings/rules.json" : "/.json"
            try server.send(
                head: Self.head("GET", target), body: [], namespace: name, in: session, as: .admin)
        }
        for name in Self.namespaces {
            try read(name, isRules: false)
            try read(name, isRules: true)
        }
        var time: Int64?
        for _ in 0..<20 where !readers.isEmpty || time == nil {
            server.stepDatabase()
            server.stepJournal()
            // The moment of the start is known: now the disk may be asked for room again.
            if time != nil { environment.advance(by: 1100) }
            for output in server.takeOutputs() {
                switch output {
                case .rest(let session, .diskFull):
                    if let (name, isRules) = readers.removeValue(forKey: session) {
                        try read(name, isRules: isRules)
                    }
                case .message(_, let bytes):
                    time = try Value(json: bytes)["d"]["d"]["ts"].number.map { Int64($0) } ?? time
                case .rest(let session, .done(let bytes?)):
                    guard let (name, isRules) = readers.removeValue(forKey: session) else { continue }
                    if isRules {
                        guard let rules = Rules.allCases.first(where: { Array($0.source.utf8) == bytes })
                        else {
                            throw BrokenPromise(
                                description: "unknown rules: \(String(decoding: bytes, as: UTF8.self))")
                        }
                        seen.namespaces[name, default: .init()].rules = rules
                    } else {
                        seen.namespaces[name, default: .init()].root = try Value(json: bytes).pruned
                    }
                default: break
                }
            }
        }
        guard let time, readers.isEmpty else {
            throw BrokenPromise(
                description: "no answer after the start: \(String(describing: server.failure))")
        }
        note(
            "started at \(time): \(seen.namespaces.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value.rules) \($0.value.root.json)" })"
        )
        try checker.recovered(
            seen, after: loss, wasStopped: wasStopped, attempts: attempts, time: time, wall: wall)
        server.close(probe)
        // Who sees everything, always: nothing may come of which it does not hear.
        for name in Self.namespaces {
            let session = open(.admin, in: name)
            try ask(.listen([], nil, tag: nil), of: session)
        }
    }
}
