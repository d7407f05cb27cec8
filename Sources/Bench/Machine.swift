import ArgumentParser
import PandoBytes
import PandoJournal
import PandoReactor
import PandoTime
import PandoTraffic
import Synchronization

/// Measures the disk and the processors without a server: no durable acknowledgement can be faster on this
/// machine at this time.
struct Machine: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "machine",
        abstract: "Measures the disk and the processors without a server.",
        discussion: """
            Writes and syncs 4096 bytes as the journal does: one after the other, into reserved space and into space \
            that was filled with zeros before, as a prepared segment is; then at fixed moments, each time counted \
            from the moment at which the sync was due. Then one thread for each processor that this process may \
            use reads the clock without pause: the gaps are times in which other processes ran, or, in a virtual \
            machine, in which the machine itself did not run.
            """)

    @Option(help: ArgumentHelp("Where to write; the file is gone afterwards.", valueName: "directory"))
    var data = "."

    @Option(help: "Syncs a second at fixed moments.")
    var rate = 1000

    @Option(help: "Seconds for each of the four.")
    var seconds = 5.0

    func validate() throws {
        guard (1...100_000).contains(rate) else { throw ValidationError("--rate must be 1 to 100000") }
        guard (0.01...3600).contains(seconds) else { throw ValidationError("--seconds must be 0.01 to 3600") }
    }

    func run() throws {
        let duration = Duration.seconds(seconds)
        let disk = try SystemDisk(directory: data, create: true)
        let inRow = try Self.syncTimes(on: disk, for: duration, every: nil)
        let prepared = try Self.syncTimes(on: disk, for: duration, every: nil, isPrepared: true)
        let atMoments = try Self.syncTimes(on: disk, for: duration, every: .seconds(1) / rate)
        let stalls = try Stalls.measured(for: duration, threads: usableProcessorCount())
        print(
            Figures.table([
                ["µs", "count", "p50", "p90", "p99", "p99.9", "longest"],
                Self.row("fdatasync, one after the other", inRow.times),
                Self.row("fdatasync of prepared space, one after the other", prepared.times),
                Self.row("fdatasync, \(rate) a second, from when it was due", atMoments.times),
            ]))
        if atMoments.unserved > 0 {
            print("The disk was too slow: \(atMoments.unserved) of the fixed moments had no sync.")
        }
        print(
            "\n\(stalls.threadCount) threads that read the clock without pause: \(stalls.text(over: seconds))"
        )
    }

    private static func row(_ name: String, _ times: Latencies) -> [String] {
        let percentiles = [50, 90, 99, 99.9].map { times.microseconds(at: $0) } + [Double(times.max) / 1000]
        return [name, String(times.totalCount)] + percentiles.map { Figures.decimal($0, places: 0) }
    }
}

extension Machine {
    /// About what one sync of a quiet server writes.
    private static let blockByteCount = 4096
    /// The size that is reserved, as for a segment of the journal; then a new file begins, as a new segment
    /// does.
    static let fileByteCount = 64 << 20
    static let fileName = "pando-bench.tmp"

    /// Writes a block and syncs it, again and again.
    /// - Parameters:
    ///   - interval: The time between two moments at which a sync is due; nil for one after the other.
    ///   - isPrepared: Writes and syncs zeros first where the blocks will be; that is not measured.
    /// - Returns: The times from when each sync began, or was due, until it returned; and how many moments
    ///   had no sync, because twice the duration was over before their turn. The first always has one.
    static func syncTimes(
        on disk: some Disk, for duration: Duration, every interval: Duration?, isPrepared: Bool = false
    ) throws(DiskFailure) -> (times: Latencies, unserved: Int) {
        let block = [UInt8](repeating: 0x61, count: blockByteCount)
        var file = try newFile(on: disk, isPrepared: isPrepared)
        var times = makeLatencies()
        var offset = 0
        var due = MonotonicTime.now
        let end = due + duration
        let deadline = end + duration
        while due < end {
            // No sleep: it would measure the wake-up as well.
            while MonotonicTime.now < due {}
            if let interval, times.totalCount > 0, MonotonicTime.now > deadline {
                let step = (due + interval).nanoseconds - due.nanoseconds
                return (times, Int(clamping: (end.nanoseconds - due.nanoseconds + step - 1) / step))
            }
            try disk.write(block.rawSpan, to: file, at: offset)
            try disk.sync(file)
            let now = MonotonicTime.now
            _ = times.record(now.nanoseconds - due.nanoseconds)
            due = interval.map { due + $0 } ?? now
            offset += blockByteCount
            if offset + blockByteCount > fileByteCount {
                file = try newFile(on: disk, isPrepared: isPrepared)
                offset = 0
                if interval == nil { due = .now }
            }
        }
        return (times, 0)
    }

    /// A file without a name: the system removes it when the process ends, also after a crash.
    private static func newFile<Storage: Disk>(on disk: Storage, isPrepared: Bool) throws(DiskFailure)
        -> Storage.File
    {
        let file = try disk.open(fileName, .create)
        try disk.remove(fileName)
        try disk.reserve(0..<fileByteCount, of: file)
        guard isPrepared else { return file }
        let zeros = [UInt8](repeating: 0, count: 1 << 20)
        for offset in stride(from: 0, to: fileByteCount, by: zeros.count) {
            try disk.write(zeros.rawSpan, to: file, at: offset)
        }
        try disk.sync(file)
        return file
    }
}

/// Times at which a thread that reads the clock without pause did not run.
struct Stalls: Sendable {
    /// Shorter gaps are the cost of reading the clock, or interrupts.
    static let shortest = Duration.microseconds(100)

    let threadCount: Int
    var count = 0
    /// Of all threads together.
    var total = Duration.zero
    var longest = Duration.zero

    init(threadCount: Int) { self.threadCount = threadCount }

    mutating func add(_ gap: Duration) {
        count += 1
        total += gap
        longest = max(longest, gap)
    }

    /// - Parameter shortest: What counts: from this on.
    /// - Throws: A thread could not be started.
    static func measured(
        for duration: Duration, threads threadCount: Int, from shortest: Duration = Self.shortest
    ) throws(SocketError) -> Stalls {
        let all = StallCount(threadCount)
        var threads: [NamedThread] = []
        defer { for thread in threads { thread.join() } }
        for index in 0..<threadCount {
            threads.append(
                try NamedThread.start("pando-stall-\(index)") {
                    var last = MonotonicTime.now
                    let end = last + duration
                    while last < end {
                        let now = MonotonicTime.now
                        if now - last >= shortest {
                            let gap = now - last
                            all.stalls.withLock { $0.add(gap) }
                        }
                        last = now
                    }
                })
        }
        for thread in threads { thread.join() }
        threads = []
        return all.stalls.withLock { $0 }
    }

    /// - Parameter seconds: How long it was measured.
    func text(over seconds: Double) -> String {
        let limit = Figures.decimal(Self.shortest / .milliseconds(1), places: 1)
        guard count > 0 else { return "never stopped for \(limit) ms" }
        let share = total / (Duration.seconds(seconds) * threadCount) * 100
        return
            "stopped \(count) times for longer than \(limit) ms, \(Figures.decimal(share, places: 2)) % of "
            + "the time, \(Figures.decimal(longest / .milliseconds(1), places: 1)) ms at the longest"
    }
}

private final class StallCount: Sendable {
    let stalls: Mutex<Stalls>

    init(_ threadCount: Int) { stalls = Mutex(Stalls(threadCount: threadCount)) }
}
