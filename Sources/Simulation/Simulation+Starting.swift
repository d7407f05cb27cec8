import PandoEngine
import PandoRandom
import PandoStorage

// The server is started, on whatever its last life and the faults of the disk have left.

extension Simulation {
    func start(after loss: Loss, wasStopped: Bool) throws {
        var (loss, wasStopped) = (loss, wasStopped)
        var flipped = plan.hasRot && random.chance(50) ? flipBits() : []
        disk.capacity = .max
        var attempts: [Int64] = []
        for attempt in 0... {
            // A start that fails stamps a time on the ends of sessions, which nothing shows while the clock
            // is behind.
            diskFaults.isQuiet = attempt > 2 || environment.wallMilliseconds < checker.clock
            diskFaults.hasFailed = false
            diskFaults.operationsLeft =
                !diskFaults.isQuiet && random.chance(15) ? Int.random(in: 0..<30, using: &random) : nil
            if random.chance(30) { advanceTime() }
            do {
                server = try makeServer()
                break
            } catch {
                server = nil
                attempts.append(environment.wallMilliseconds)
                note("no start: \(error)")
                totals.refusedStarts += 1
                if disk.hasCrashed || diskFaults.hasFailed {
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
        diskFaults.isQuiet = true
        diskFaults.operationsLeft = nil
        totals.lives += 1
        if !flipped.isEmpty {
            loss = flipped.count > 1 || plan.durability != .always ? .anything : max(loss, .unmarked)
            wasStopped = false
        }
        (flooders, presenceNumbers, namespacesWithLargeNode) = ([], [:], [])
        let wall = environment.wallMilliseconds
        let (seen, time) = try readBack()
        try checker.recovered(
            seen, after: loss, wasStopped: wasStopped, attempts: attempts, time: time, wall: wall)
        // Looking around took time.
        checker.clock = max(checker.clock, latestRun)
        watchEverything()
        diskFaults.isQuiet = false
    }

    private func flipBits() -> [(name: String, bit: Int)] {
        var flipped: [(name: String, bit: Int)] = []
        let files = disk.contents.filter { !$0.value.isEmpty }.sorted { $0.key < $1.key }
        for _ in 0..<random.pick([1, 1, 3]) where !files.isEmpty {
            let file = random.pick(files)
            let bit = Int.random(in: 0..<file.value.count * 8, using: &random)
            disk.flipBit(of: file.key, at: bit)
            flipped.append((file.key, bit))
            totals.flippedBits += 1
            note("bit \(bit) of \(file.key) flips")
        }
        return flipped
    }

    /// Reads everything that is there, as a client does.
    /// - Returns: What is there, and the time that the server says.
    private func readBack() throws -> (ReferenceState, Int64) {
        var seen = ReferenceState()
        var time: Int64?
        /// Links of clients that read the rules; the others read the data.
        var rulesReaders: Set<Int> = []
        var missingCount = 0
        /// Clients that ask again when time has passed.
        var refused: [SimulatedClient] = []
        onDecoded = { client, decoded in
            switch decoded {
            case .message(let bytes):
                time = try Value(json: bytes)["d"]["d"]["ts"].number.map { Int64($0) } ?? time
            case .response(let response) where response.status == 503:
                // The disk was asked for space too early.
                refused.append(client)
            case .response(let response) where rulesReaders.contains(client.link.number):
                guard
                    let rules = RulesDocument.allCases.first(where: { Array($0.source.utf8) == response.body }
                    )
                else { throw BrokenPromise(description: "unknown rules: \(decoded.text)") }
                seen.namespaces[client.namespace, default: .init()].rules = rules
                missingCount -= 1
            case .response(let response):
                seen.namespaces[client.namespace, default: .init()].root =
                    try Value(json: response.body).pruned
                missingCount -= 1
            case .event: break
            }
        }
        defer { onDecoded = nil }
        _ = makeClient(.anonymous, in: Self.namespaces[0], isRealtime: true)
        for name in Self.namespaces {
            makeClient(.admin, in: name, isRealtime: false).send(.restGet([], nil), &random)
            let reader = makeClient(.admin, in: name, isRealtime: false)
            rulesReaders.insert(reader.link.number)
            reader.requestRules()
            missingCount += 2
        }
        for _ in 0..<Self.lookRounds where missingCount > 0 || time == nil {
            while try settleOnce() {}
            // The moment of the start is known: now the disk may be asked for space again.
            if time != nil { environment.advance(by: 1100) }
            for client in exchange(&refused, with: []) {
                if rulesReaders.contains(client.link.number) {
                    client.requestRules()
                } else {
                    client.send(.restGet([], nil), &random)
                }
            }
        }
        guard let time, missingCount == 0 else {
            throw BrokenPromise(
                description: "no answer after the start: \(String(describing: server?.failure))")
        }
        for client in clients { client.leave(.reset, &random) }
        while try settleOnce() {}
        note(
            "started at \(time): \(seen.namespaces.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value.rules) \($0.value.root.json)" })"
        )
        return (seen, time)
    }

    /// Rounds in which a server that was just started answers four reads.
    private static let lookRounds = 20

    /// Clients who see everything, always: no change may come that they do not get.
    private func watchEverything() {
        for name in Self.namespaces {
            let client = connect(.admin, in: name)
            client.isObserver = true
            ask(.listen([], nil, tag: nil), by: client)
        }
    }
}
