/// The longest waits of a phase, with their moments: one for each stall of the server, not one for each
/// operation that waited in it.
struct SlowestOperations: Sendable {
    struct Wait: Sendable, Equatable {
        let operation: BystanderOperation
        /// Nanoseconds from the begin of the phase until it ended.
        let ended: Int
        let nanoseconds: Int
    }

    /// How many are kept.
    static let capacity = 5
    /// Waits that end within this time of each other (nanoseconds) are one stall.
    static let stall = 100_000_000

    /// Longest first.
    private(set) var waits: [Wait] = []

    /// O(capacity).
    mutating func record(_ wait: Wait) {
        if let same = waits.firstIndex(where: { abs($0.ended - wait.ended) < Self.stall }) {
            guard waits[same].nanoseconds < wait.nanoseconds else { return }
            waits.remove(at: same)
        }
        let place = waits.firstIndex { $0.nanoseconds < wait.nanoseconds } ?? waits.count
        guard place < Self.capacity else { return }
        waits.insert(wait, at: place)
        if waits.count > Self.capacity { waits.removeLast() }
    }
}
