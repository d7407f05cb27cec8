/// The values of one writer, numbered 1, 2, 3, …, as one listener receives them: each must come once, in
/// order.
struct StreamAudit: Sendable {
    /// The number that must come next.
    private(set) var next = 1
    private(set) var missing = 0
    private(set) var duplicates = 0

    enum Arrival: Equatable { case expected, gap(count: Int), duplicate }

    /// A value came. One that is larger than expected leaves a gap, and what is in it counts as missing:
    /// should it still come, it is out of order and counts as a duplicate.
    mutating func arrived(_ number: Int) -> Arrival {
        if number == next {
            next += 1
            return .expected
        }
        guard number > next else {
            duplicates += 1
            return .duplicate
        }
        let gap = number - next
        missing += gap
        next = number + 1
        return .gap(count: gap)
    }

    /// The writer has written `last` values and nothing is under way any more.
    /// - Returns: How many are missing that no later value has shown to be.
    mutating func finish(last: Int) -> Int {
        let tail = max(0, last + 1 - next)
        missing += tail
        next += tail
        return tail
    }

    /// The listener was away: what comes next may be any value that is not older than what it had.
    mutating func resume() { isResuming = true }

    private var isResuming = false

    /// The same as ``arrived(_:)``, for a listener that may come back after ``resume()``: the value of now is
    /// sent to it, so the last one once more is right, an older one wrong.
    mutating func arrivedAfterAbsence(_ number: Int) -> Arrival {
        guard isResuming else { return arrived(number) }
        isResuming = false
        guard number >= next - 1 else {
            duplicates += 1
            return .duplicate
        }
        next = number + 1
        return .expected
    }
}
