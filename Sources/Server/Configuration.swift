import Glibc
import PandoREST
import PandoReactor

/// When an acknowledged write is on disk (design: the life of a write, step 5).
package enum Durability: String, Sendable, CaseIterable {
    /// Before its acknowledgement, and before anybody sees it: survives `kill -9` and power loss.
    case always
    /// Written before its acknowledgement, synced every 100 ms: survives `kill -9`; a power cut takes the last moment.
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
    /// Open rules while none are loaded, namespaces on first use, unsigned tokens; loopback only.
    package var isDevelopment = false
    package var durability = Durability.always
    /// I/O loops; 0 stands for one less than the processors, and at least one.
    package var loopCount = 0
    /// Bytes one connection may leave unread before it is disconnected.
    package var outboundByteLimit = 64 << 20
    /// Bytes of requests that may wait for the database and the disk before sockets are no longer read.
    package var inFlightByteLimit = 64 << 20
    /// Silence after which a connection is asked whether it lives (wire-protocol §2.3: clients speak every 45 s).
    package var idleTimeout: Duration = .seconds(75)
    /// Chunks a client may announce for one message: 16 MiB and slack (wire-protocol §14).
    package var chunkCountLimit = 1100

    /// Bytes of one REST answer, and of one REST write (rest-api §13).
    package var readByteLimit = RESTLimits.readByteCount
    package var writeByteLimit = RESTLimits.writeByteCount

    package init() {}

    /// How many loops to run: one processor is left to the database thread.
    var effectiveLoopCount: Int {
        loopCount > 0 ? loopCount : max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)) - 1)
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
        if isDevelopment, host != "localhost", SocketAddress(host, port: port)?.isLoopback != true {
            found.append(
                "--dev: opens the database to everybody, so --host must be a loopback address, not \(host)")
        }
        if outboundByteLimit < 1 << 20 {
            found.append("--outbound-limit: below 1 MiB even one large value could not be sent")
        }
        if inFlightByteLimit < 1 << 20 {
            found.append("--in-flight-limit: below 1 MiB even one large write could not be taken")
        }
        if idleTimeout < .seconds(60) {
            found.append("--idle-timeout: Firebase clients speak every 45 s; leave them at least 60")
        }
        if !(1...RESTLimits.writeByteCount).contains(writeByteLimit) {
            found.append("--max-write-bytes: must be 1 to \(RESTLimits.writeByteCount), what an entry of the log holds")
        }
        if readByteLimit < 1 { found.append("--max-read-bytes: must be positive") }
        if !(0...64).contains(loopCount) { found.append("--loops: must be 0 (choose) to 64") }
        if !(1...9999).contains(chunkCountLimit) { found.append("--chunk-limit: must be 1 to 9999") }
        return found
    }
}
