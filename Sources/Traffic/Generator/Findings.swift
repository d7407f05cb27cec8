/// What was wrong in a run: counts, with a few examples in words.
package struct Findings: Equatable, Sendable {
    private static let exampleLimit = 8

    /// Deliveries that never came.
    package var missing = 0
    /// Deliveries that came twice, or after a newer one.
    package var duplicates = 0
    /// Values that are not what was written.
    package var wrong = 0
    /// Requests that were refused.
    package var refused = 0
    /// Requests without a reply.
    package var unanswered = 0
    /// Connections that failed or that the server ended.
    package var lostConnections = 0
    package private(set) var examples: [String] = []

    package init() {}

    package var isClean: Bool { total == 0 }

    package var total: Int { missing + duplicates + wrong + refused + unanswered + lostConnections }

    /// Counts `count` cases of one kind; keeps the words while there are few examples.
    package mutating func add(
        _ kind: WritableKeyPath<Findings, Int>, _ count: Int, _ words: @autoclosure () -> String
    ) {
        self[keyPath: kind] += count
        if examples.count < Self.exampleLimit { examples.append(words()) }
    }

    /// Counts one.
    package mutating func add(_ kind: WritableKeyPath<Findings, Int>, _ words: @autoclosure () -> String) {
        add(kind, 1, words())
    }

    package mutating func merge(_ other: Findings) {
        missing += other.missing
        duplicates += other.duplicates
        wrong += other.wrong
        refused += other.refused
        unanswered += other.unanswered
        lostConnections += other.lostConnections
        examples = Array((examples + other.examples).prefix(Self.exampleLimit))
    }

    /// Names and counts, in the order of the report.
    package var counts: [(name: String, count: Int)] {
        [
            ("missing", missing), ("duplicates", duplicates), ("wrong", wrong), ("refused", refused),
            ("unanswered", unanswered), ("lostConnections", lostConnections),
        ]
    }
}
