import Synchronization

/// Counts bytes on their way from one side to another, and says when the first side must pause and when it
/// may go on.
///
/// One counts requests, from the socket to the disk: over the limit loops stop reading, so a slow disk slows
/// writers down instead of filling memory. One counts outputs, from the database thread to the sockets: over
/// the limit that thread stops taking requests.
final class BackpressureGate: Sendable {
    private let byteLimit: Int
    private let byteCount = Atomic<Int>(0)
    private let isPaused = Atomic<Bool>(false)

    init(byteLimit: Int) {
        self.byteLimit = byteLimit
    }

    enum Advice {
        case goOn
        /// Pause until told to go on.
        case pause
        /// The way is free, but another of the first side may have paused, whom nobody would tell.
        case tellAll
    }

    /// The first side.
    func add(_ bytes: Int) -> Advice {
        let total = byteCount.add(bytes, ordering: .sequentiallyConsistent).newValue
        guard total > byteLimit else { return .goOn }
        isPaused.store(true, ordering: .sequentiallyConsistent)
        // The last byte may have left between the two lines above, and then nobody would say so.
        guard byteCount.load(ordering: .sequentiallyConsistent) < byteLimit / 2 else { return .pause }
        return isPaused.exchange(false, ordering: .sequentiallyConsistent) ? .tellAll : .pause
    }

    /// The other side. True: the way is free again, and the first side must be told.
    func remove(_ bytes: Int) -> Bool {
        let total = byteCount.subtract(bytes, ordering: .sequentiallyConsistent).newValue
        guard total < byteLimit / 2, isPaused.load(ordering: .sequentiallyConsistent) else { return false }
        return isPaused.exchange(false, ordering: .sequentiallyConsistent)
    }
}
