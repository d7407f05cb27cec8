/// What one listener has got of one writer's numbered values 1, 2, 3, …: each must come once, in order.
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

/// What was wrong in a run, counted, with a few examples in words.
struct Findings: Equatable, Sendable {
    private static let exampleLimit = 8

    /// Deliveries that never came.
    var missing = 0
    /// Deliveries that came twice, or after a newer one.
    var duplicates = 0
    /// Values that are not what was written.
    var wrong = 0
    /// Requests that were refused.
    var refused = 0
    /// Requests without an answer.
    var unanswered = 0
    /// Connections that failed or that the server ended.
    var lostConnections = 0
    private(set) var examples: [String] = []

    var isClean: Bool { total == 0 }

    var total: Int { missing + duplicates + wrong + refused + unanswered + lostConnections }

    /// Counts `count` cases of one kind and keeps the words if there is still room for an example.
    mutating func add(
        _ kind: WritableKeyPath<Findings, Int>, _ count: Int, _ words: @autoclosure () -> String
    ) {
        self[keyPath: kind] += count
        if examples.count < Self.exampleLimit { examples.append(words()) }
    }

    /// Counts one.
    mutating func add(_ kind: WritableKeyPath<Findings, Int>, _ words: @autoclosure () -> String) {
        add(kind, 1, words())
    }

    mutating func merge(_ other: Findings) {
        missing += other.missing
        duplicates += other.duplicates
        wrong += other.wrong
        refused += other.refused
        unanswered += other.unanswered
        lostConnections += other.lostConnections
        examples = Array((examples + other.examples).prefix(Self.exampleLimit))
    }

    /// Names and counts, in the order of the report.
    var counts: [(name: String, count: Int)] {
        [
            ("missing", missing), ("duplicates", duplicates), ("wrong", wrong), ("refused", refused),
            ("unanswered", unanswered), ("lostConnections", lostConnections),
        ]
    }
}
