import ArgumentParser
import PandoBytes
import PandoJournal
import PandoReactor
import PandoTraffic
import Synchronization

/// What disk and processors give by themselves: no durable acknowledgement can be faster, on this machine,
/// today.
struct Machine: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "machine",
        abstract: "What the disk and the processors give by themselves, without any server.",
        discussion: """
            Writes and syncs 4096 bytes as the log does, one after the other, into room that the disk has promised and into \
            room that was written full of zeros before, as a prepared segment is; and at fixed moments: then a time counts \
            from the moment at which its sync was due. And a thread for each processor that this process may use only looks at \
            the clock: what it misses, somebody else had, or nobody, where the machine is a guest.
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
                Self.row("fdatasync of prepared room, one after the other", prepared.times),
                Self.row("fdatasync, \(rate) a second, from when it was due", atMoments.times),
            ]))
        if atMoments.unserved > 0 {
            print("The disk was so slow that of the fixed moments \(atMoments.unserved) had no sync.")
        }
        print("\n\(stalls.threadCount) threads that only look at the clock: \(stalls.text(over: seconds))")
    }

    private static func row(_ name: String, _ times: Latencies) -> [String] {
        let percentiles = [0.5, 0.9, 0.99, 0.999].map { times.percentile($0).map(String.init) ?? "-" }
        return [name, String(times.count)] + percentiles + [String(times.maximum)]
    }
}

extension Machine {
    /// A block of the log, about: what one sync of a quiet server writes.
    private static let blockByteCount = 4096
    /// Reserved before, as a segment of the log is; then comes a new file, as a new segment does.
    static let fileByteCount = 64 << 20
    static let fileName = "pando-bench.tmp"

    /// Writes a block and syncs it, again and again.
    /// - Parameter interval: From one moment to the next, at each of which one is due; nil for one after the
    ///   other.
    ///   - isPrepared: Zeros are written, and synced, where the blocks will be; no part of the times.
    /// - Returns: From when each began, or was due, until it was durable; and how many moments had none,
    ///   because twice the time was over before their turn. The first always has one.
    static func syncTimes(
        on disk: some Disk, for duration: Duration, every interval: Duration?, isPrepared: Bool = false
    ) throws(DiskFailure) -> (times: Latencies, unserved: Int) {
        let block = [UInt8](repeating: 0x61, count: blockByteCount)
        var file = try newFile(on: disk, isPrepared: isPrepared)
        var times = Latencies()
        var offset = 0
        var due = MonotonicTime.now
        let end = due + duration
        let deadline = end + duration
        while due < end {
            // Waiting by sleeping would measure how one is woken.
            while MonotonicTime.now < due {}
            if let interval, times.count > 0, MonotonicTime.now > deadline {
                let step = (due + interval).nanoseconds - due.nanoseconds
                return (times, Int(clamping: (end.nanoseconds - due.nanoseconds + step - 1) / step))
            }
            try disk.write(block.rawSpan, to: file, at: offset)
            try disk.sync(file)
            let now = MonotonicTime.now
            times.record(nanoseconds: now.nanoseconds - due.nanoseconds)
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

    /// A file without a name: it is gone when this ends, however it ends.
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

/// Times at which a thread that only looks at the clock did not run.
struct Stalls: Sendable {
    /// What is shorter is the clock's own price, or an interrupt.
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
        guard count > 0 else { return "never kept waiting for \(limit) ms" }
        let share = total / (Duration.seconds(seconds) * threadCount) * 100
        return
            "kept waiting \(count) times for longer than \(limit) ms, \(Figures.decimal(share, places: 2)) % of "
            + "the time, \(Figures.decimal(longest / .milliseconds(1), places: 1)) ms at the longest"
    }
}

private final class StallCount: Sendable {
    let stalls: Mutex<Stalls>

    init(_ threadCount: Int) { stalls = Mutex(Stalls(threadCount: threadCount)) }
}
