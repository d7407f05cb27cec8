import PandoBytes
import Synchronization

/// What clients make the server hold beside the data: output they have not read, input that is not complete,
/// requests that wait, listens and queued onDisconnect writes. Counted for the whole process, in one place,
/// so that what many clients hold together is bounded too.
///
///     0 ───────────── 3/4 of the limit ───────────────── the limit ─────▶
///       all are read       those that hold most are not     clients are disconnected until 3/4 is
///                          read; when it lasts, clients     left; long messages that are not complete
///                          are disconnected                 are not read any further
///
/// Which clients are disconnected, ``PandoConnections/MemoryRelief`` decides: those that make no progress
/// first.
///
/// Loops publish what their sessions hold at the end of a tick, when it has changed. What many connections
/// share is counted once, by ``SharedBytes`` itself.
package final class MemoryBudget: Sendable {
    enum Pressure: Equatable {
        /// At most half of the limit is held.
        case none
        /// At most 3/4. Sessions that were paused are read again after a while.
        case moderate
        /// Sessions that hold most are not read; when the pressure lasts, sessions are disconnected
        /// (``LoopMemory``).
        case high
        /// Sessions are disconnected.
        case exceeded
    }

    /// While the limit is exceeded, a session with so many bytes of incomplete input is not read.
    static let incompleteInputLimit = 4 << 10

    package let byteLimit: Int
    private let held = Atomic<Int>(0)

    /// - Parameter byteLimit: Bytes, about: blocks of the heap are a little larger than what they hold.
    init(byteLimit: Int) {
        self.byteLimit = max(1, byteLimit)
    }

    /// Any thread: so many bytes more are held, or fewer.
    func change(by byteCount: Int) {
        held.add(byteCount, ordering: .relaxed)
    }

    /// Bytes that are held.
    package var byteCount: Int { held.load(ordering: .relaxed) + SharedBytes.liveByteCount }

    var pressure: Pressure {
        let byteCount = byteCount
        if byteCount > byteLimit { return .exceeded }
        if byteCount > highByteCount { return .high }
        return byteCount > byteLimit / 2 ? .moderate : .none
    }

    /// Bytes from which on those who hold most are not read.
    private var highByteCount: Int { byteLimit / 4 * 3 }

    /// Bytes that must go before the pressure is over.
    var excessByteCount: Int { max(0, byteCount - highByteCount) }
}
