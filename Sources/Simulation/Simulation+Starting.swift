import PandoEngine
import PandoRandom
import PandoStorage

// The server is started, on whatever its last life and the faults of the disk have left.

extension Simulation {
    func start(after loss: Loss, wasStopped: Bool) throws {
        var (loss, wasStopped) = (loss, wasStopped)
        var flipped = world.plan.hasRot && world.random.chance(50) ? flipBits() : []
        world.disk.capacity = .max
        var attempts: [Int64] = []
        for attempt in 0... {
            // A start that fails stamps a time on the ends of sessions, which nothing shows while the clock
            // is behind.
            world.diskFaults.isQuiet = attempt > 2 || world.environment.wallMilliseconds < world.checker.clock
            world.diskFaults.hasFailed = false
            world.diskFaults.operationsLeft =
                !world.diskFaults.isQuiet && world.random.chance(15)
                ? Int.random(in: 0..<30, using: &world.random) : nil
            if world.random.chance(30) { advanceTime() }
            do {
                world.server = try makeServer()
                break
            } catch {
                world.server = nil
                attempts.append(world.environment.wallMilliseconds)
                world.note("no start: \(error)")
                world.totals.refusedStarts += 1
                if world.disk.hasCrashed || world.diskFaults.hasFailed {
                    let new = try end(isPowerCut: world.random.chance(50))
                    // What was stopped in order is on the disk, all of it.
                    if !wasStopped { loss = max(loss, new) }
                } else if case .badData? = error as? StorageError, !flipped.isEmpty {
                    for (name, bit) in flipped { world.disk.flipBit(of: name, at: bit) }
                    flipped = []
                } else {
                    throw BrokenPromise(description: "the server does not start: \(error)")
                }
            }
        }
        world.diskFaults.isQuiet = true
        world.diskFaults.operationsLeft = nil
        world.totals.lives += 1
        if !flipped.isEmpty {
            loss = flipped.count > 1 || world.plan.durability != .always ? .anything : max(loss, .unmarked)
            wasStopped = false
        }
        driver.begin()
        let wall = world.environment.wallMilliseconds
        let (seen, time) = try StartReader(world, driver, idle).read()
        try world.checker.recovered(
            seen,
            after: RecoveryCheck.Start(loss: loss, wasStopped: wasStopped, attempts: attempts, time: time),
            wall: wall)
        // ``StartReader`` reading took time.
        world.checker.clock = max(world.checker.clock, observer.latestRun)
        driver.watchEverything()
        world.diskFaults.isQuiet = false
    }

    private func flipBits() -> [(name: String, bit: Int)] {
        var flipped: [(name: String, bit: Int)] = []
        let files = world.disk.contents.filter { !$0.value.isEmpty }.sorted { $0.key < $1.key }
        for _ in 0..<world.random.pick([1, 1, 3]) where !files.isEmpty {
            let file = world.random.pick(files)
            let bit = Int.random(in: 0..<file.value.count * 8, using: &world.random)
            world.disk.flipBit(of: file.key, at: bit)
            flipped.append((file.key, bit))
            world.totals.flippedBits += 1
            world.note("bit \(bit) of \(file.key) flips")
        }
        return flipped
    }
}
