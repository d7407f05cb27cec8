/// The longest waits of a phase, with their moments: one for each stall of the server, not one for each
/// operation that waited in it.
struct SlowestOperations: Sendable {
    struct Wait: Sendable, Equatable {
        let operation: BystanderOperation
        /// From the start of the phase until the operation was answered.
        let endedNanoseconds: Int
        let nanoseconds: Int
    }

    /// How many are kept.
    static let capacity = 5
    /// Waits that end within this time of each other are one stall.
    static let stallNanoseconds = 100_000_000

    /// Longest first.
    private(set) var waits: [Wait] = []

    /// O(capacity).
    mutating func record(_ wait: Wait) {
        let isSameStall = { (other: Wait) in
            abs(other.endedNanoseconds - wait.endedNanoseconds) < Self.stallNanoseconds
        }
        guard !waits.contains(where: { isSameStall($0) && $0.nanoseconds >= wait.nanoseconds }) else {
            return
        }
        waits.removeAll(where: isSameStall)
        let place = waits.firstIndex { $0.nanoseconds < wait.nanoseconds } ?? waits.count
        guard place < Self.capacity else { return }
        waits.insert(wait, at: place)
        if waits.count > Self.capacity { waits.removeLast() }
    }
}
