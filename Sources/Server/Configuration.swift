import Logging
import PandoHTTP
import PandoIdentity
import PandoJournal
import PandoREST
import PandoReactor
import PandoTree
import PandoWire

/// When an acknowledged write is on disk.
package enum Durability: String, Sendable, CaseIterable {
    /// Before its acknowledgement, and before anybody sees it: survives `kill -9` and power loss.
    case always
    /// Written before its acknowledgement, synced every 100 ms: survives `kill -9`; a power cut takes the
    /// last moment.
    case interval
    /// Written before its acknowledgement, synced when the kernel likes: survives `kill -9`.
    case none
}

/// Everything that `pando serve` can be told.
package struct Configuration: Sendable {
    package var host = "127.0.0.1"
    /// 0 picks a free one.
    package var port: UInt16 = 9000
    /// Nil keeps everything in memory.
    package var dataDirectory: String?
    package var isMemoryOnly = false
    /// A rules file for `default`, or a directory of NAMESPACE.json; nil leaves databases to their stored
    /// rules.
    package var rulesPath: String?
    /// Open rules while none are loaded, namespaces on first use, unsigned tokens; loopback only.
    package var isDevelopment = false
    /// Pages from elsewhere that may use a server under ``isDevelopment``.
    package var allowedOrigins: [WebOrigin] = []
    /// Whose tokens are taken; those of `--dev` besides when ``isDevelopment`` is set.
    package var identity = IdentityConfiguration()
    package var durability = Durability.always
    /// Bytes of one file of the log.
    package var segmentByteLimit = JournalOptions.standardSegmentByteLimit
    /// Room is taken on the disk ahead of what is written: less than this, and the next step is due.
    package var lowRoomByteCount = 8 << 20
    /// Room in the log that clients' writes leave to what cannot be refused: the ends of sessions.
    package var spareRoomByteCount = 1 << 20
    /// Bytes of log after which a checkpoint is written; recovery reads at most about so much.
    package var checkpointByteLimit = 256 << 20
    /// Time after which one is written whatever there is; zero for never.
    package var checkpointInterval: Duration = .zero
    /// Checkpoints that are kept, with the log since the oldest of them.
    package var keptCheckpointCount = 2
    /// I/O loops; 0 stands for one less than the processors, and at least one.
    package var loopCount = 0
    /// Bytes one connection may leave unread before it is disconnected.
    package var outboundByteLimit = 64 << 20
    /// Bytes of requests that may wait for the database and the disk before sockets are no longer read.
    package var inFlightByteLimit = 64 << 20
    /// Bytes that clients may make the server hold beside the data (``MemoryBudget``); 0 stands for a share
    /// of the machine's memory, or of what its container may have.
    package var memoryByteLimit = 0
    /// Silence after which a connection is asked whether it lives (realtime §2.3: clients speak every 45
    /// s).
    package var idleTimeout: Duration = .seconds(75)
    /// After how long, at most, a client that vanished without closing its connection is known to be gone;
    /// nil for what follows from ``idleTimeout``.
    package var presenceTimeout: Duration?
    /// A request's head must be there by then (slow-loris), and its body too, or be coming fast enough.
    package var requestTimeout: Duration = .seconds(30)
    /// Chunks a client may announce for one message: 16 MiB and slack (realtime §14).
    package var chunkCountLimit = 1100

    /// Bytes of one REST answer, and of one REST write (rest §13).
    package var readByteLimit = RESTLimits.readByteCount
    package var writeByteLimit = RESTLimits.writeByteCount

    /// The least of what is said on stderr.
    package var logLevel = Logger.Level.info

    package init() {}

    /// Smaller files would be mostly work of making them.
    private static let fileByteMinimum = 64 << 10
    /// Seconds: a phone that changes from one network to another is silent for a few.
    private static let presenceMinimum = 10
    private static let presenceLimit = 3600
    /// A year.
    private static let checkpointIntervalLimit = 365 * 86_400

    /// How the journal lays out its files.
    package var journalOptions: JournalOptions {
        var options = JournalOptions()
        options.segmentByteLimit = segmentByteLimit
        return options
    }

    /// Most nodes of one write.
    var writeNodeLimit: Int { Limits.nodeCount(writeByteLimit: writeByteLimit) }

    /// ``memoryByteLimit``, or what it stands for.
    var effectiveMemoryByteLimit: Int {
        if memoryByteLimit > 0 { return memoryByteLimit }
        return max(MemoryBudget.leastByteLimit, usableMemoryByteCount() / MemoryBudget.standardShare)
    }

    /// Bytes of one message of a client.
    var messageByteLimit: Int { chunkCountLimit * Segmenter.chunkUnitLimit }

    /// How many loops to run: one processor is left to the database thread.
    var effectiveLoopCount: Int {
        loopCount > 0 ? loopCount : max(1, usableProcessorCount() - 1)
    }

    /// Every problem that shows without opening a file or a socket, in the words the operator typed.
    package var problems: [String] {
        var found: [String] = []
        switch (dataDirectory, isMemoryOnly) {
        case (nil, false): found.append("--data: missing; give a directory, or --memory to keep nothing")
        case (_?, true): found.append("--memory: keeps nothing, so it can't go with --data")
        case (""?, false): found.append("--data: empty; give a directory")
        default: break
        }
        found += identity.problems
        if rulesPath == "" { found.append("--rules: empty; give a file or a directory") }
        if isDevelopment, host != "localhost", SocketAddress(host, port: port)?.isLoopback != true {
            found.append(
                "--dev: opens the database to everybody, so --host must be a loopback address, not \(host)")
        }
        if !isDevelopment, !allowedOrigins.isEmpty {
            found.append(
                "--allow-origin: only --dev asks where a page is from; without it every page may ask, and the rules decide"
            )
        }
        if outboundByteLimit < 1 << 20 {
            found.append("--outbound-limit: below 1 MiB even one large value could not be sent")
        }
        if inFlightByteLimit < 1 << 20 {
            found.append("--in-flight-limit: below 1 MiB even one large write could not be taken")
        }
        if memoryByteLimit != 0, memoryByteLimit < MemoryBudget.leastByteLimit {
            found.append("--memory-limit: must be 0 (choose) or at least \(MemoryBudget.leastByteLimit)")
        }
        if !(Self.fileByteMinimum...1 << 40).contains(segmentByteLimit) {
            found.append("--segment-bytes: must be \(Self.fileByteMinimum) to 2^40")
        }
        if !(Self.fileByteMinimum...1 << 50).contains(checkpointByteLimit) {
            found.append("--checkpoint-bytes: must be \(Self.fileByteMinimum) to 2^50")
        }
        if checkpointInterval < .zero || checkpointInterval > .seconds(Self.checkpointIntervalLimit) {
            found.append(
                "--checkpoint-interval: must be 0 (never) to \(Self.checkpointIntervalLimit) seconds")
        }
        if !(2...1000).contains(keptCheckpointCount) {
            found.append(
                "--keep-checkpoints: must be 2 (one to fall back to when the other is damaged) to 1000")
        }
        if idleTimeout < .seconds(60) {
            found.append("--idle-timeout: Firebase clients speak every 45 s; leave them at least 60")
        }
        if let presenceTimeout,
            !(.seconds(Self.presenceMinimum) ... .seconds(Self.presenceLimit)).contains(presenceTimeout)
        {
            found.append(
                "--presence-timeout: must be \(Self.presenceMinimum) to \(Self.presenceLimit) seconds: below, clients on slow links would be taken for gone"
            )
        }
        if requestTimeout < .seconds(1) { found.append("--request-timeout: must be at least a second") }
        if !(1...RESTLimits.writeByteCount).contains(writeByteLimit) {
            found.append(
                "--max-write-bytes: must be 1 to \(RESTLimits.writeByteCount), what an entry of the log holds"
            )
        }
        if readByteLimit < 1 { found.append("--max-read-bytes: must be positive") }
        if !(0...64).contains(loopCount) { found.append("--loops: must be 0 (choose) to 64") }
        if !(1...9999).contains(chunkCountLimit) { found.append("--chunk-limit: must be 1 to 9999") }
        return found
    }
}

// How long a client that vanished counts as present:
//
//     WebSocket      last word ──pingSilence──▶ ping ──half of that──▶ closed
//     long polling   poll ──pollHoldTime──▶ answer, which does not arrive ──pollGap──▶ over
//
// Each step is noticed at the next look of the loop, at most two ``presenceStep`` later: with a presence
// timeout T, T/2 and T/4 and two looks of T/8 each are T.

extension Configuration {
    /// Silence on a WebSocket after which the client is asked whether it lives; after half of that without an
    /// answer it is gone.
    var pingSilence: Duration { presenceTimeout.map { $0 / 2 } ?? idleTimeout }

    /// How long a poll waits for something to say: less than the 25 s after which clients give one up
    /// (realtime §1.5.2).
    var pollHoldTime: Duration { min(.seconds(20), presenceTimeout.map { $0 / 4 } ?? .seconds(20)) }

    /// Time without a poll after which a client of long polling is gone (§1.5.3).
    var pollGap: Duration { min(.seconds(60), presenceTimeout.map { $0 / 2 } ?? .seconds(60)) }

    /// A client that takes nothing of what waits for it for that long is disconnected, and so is one that
    /// takes less than ``ClientSession/slowestBytesPerSecond`` over any such time.
    var stallTimeout: Duration { min(.seconds(30), presenceTimeout.map { $0 / 2 } ?? .seconds(30)) }

    /// A sweep over all sessions takes at most so long, and the next begins as much later.
    var presenceStep: Duration { (presenceTimeout ?? .seconds(Self.presenceLimit)) / 16 }
}
