import PandoBytes
import PandoDatabase
import Synchronization

/// What clients make the server hold beside the data: output they have not taken, input that is not complete,
/// requests that wait, listens and queued onDisconnect writes. Counted for the whole process, in one place,
/// so that what many clients hold together is bounded too.
///
///     0 ───────────── 3/4 of the limit ───────────────── the limit ─────▶
///       none is paused     those that hold most are         clients are disconnected until 3/4 is
///                          paused; when it lasts, clients   left; long messages that are not complete
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
        /// Sessions that hold most are paused; when the pressure lasts, sessions are disconnected
        /// (``LoopMemory``).
        case high
        /// Sessions are disconnected.
        case exceeded
    }

    /// While the limit is exceeded, a session with so many bytes of incomplete input is paused.
    static let incompleteInputLimit = 4 << 10

    package let byteLimit: Int
    private let held = Atomic<Int>(0)
    /// What each loop has found in its last scan: see ``hasUnsteady(besides:)``.
    private let unsteadyByteCounts: Mutex<[Int]>

    /// - Parameters:
    ///   - byteLimit: Bytes, about: blocks of the heap are a little larger than what they hold.
    ///   - loopCount: Threads whose clients are counted, at least one.
    init(byteLimit: Int, loopCount: Int = 1) {
        self.byteLimit = max(1, byteLimit)
        unsteadyByteCounts = Mutex(Array(repeating: 0, count: loopCount))
    }

    /// Any thread: so many bytes more are held, or fewer.
    func change(by byteCount: Int) {
        held.add(byteCount, ordering: .relaxed)
    }

    /// Bytes that are held.
    package var byteCount: Int { held.load(ordering: .relaxed) + sharedByteCount }

    /// Bytes of them that no loop counts, since clients of several may hold them: encoded messages, and data
    /// that only snapshots have.
    var sharedByteCount: Int { SharedBytes.liveByteCount + SnapshotPin.liveByteCount }

    var pressure: Pressure {
        let byteCount = byteCount
        if byteCount > byteLimit { return .exceeded }
        if byteCount > highByteCount { return .high }
        return byteCount > byteLimit / 2 ? .moderate : .none
    }

    /// Bytes from which on those who hold most are paused.
    private var highByteCount: Int { byteLimit / 4 * 3 }

    /// Bytes that must go before the pressure is over.
    var excessByteCount: Int { max(0, byteCount - highByteCount) }

    // MARK: Between loops

    /// A loop: its clients that hold much and make no steady progress hold so many bytes; 0 where it has not
    /// looked, or none is to be disconnected any more.
    func noteUnsteady(_ byteCount: Int, ofLoop index: Int) {
        unsteadyByteCounts.withLock { $0[index] = byteCount }
    }

    /// Whether such clients of other loops hold a useful part of the excess. Then this loop disconnects no
    /// others for a while (``MemoryStages/reach(at:whileOthersRelieve:)``): attackers are few, and may all be
    /// of one loop.
    func hasUnsteady(besides index: Int) -> Bool {
        let others = unsteadyByteCounts.withLock { counts in
            counts.indices.reduce(0) { $0 + ($1 == index ? 0 : counts[$1]) }
        }
        return others > excessByteCount / Self.usefulShare
    }

    private static let usefulShare = 8
}
