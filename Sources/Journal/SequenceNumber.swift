/// The number of a record in the journal: 1 for the first, one more for each after it, never reused; 0 for
/// "before the first". Neither an index nor a count, since the journal may begin later than at 1.
package struct SequenceNumber: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let rawValue: UInt64

    package init(_ rawValue: UInt64) { self.rawValue = rawValue }

    /// Before every record.
    package static let zero = SequenceNumber(0)

    /// The next number. It would wrap, but ``JournalFormat/firstSequenceLimit`` makes that impossible.
    package var successor: SequenceNumber { SequenceNumber(rawValue &+ 1) }

    /// The number before it; ``zero`` for ``zero``.
    package var predecessor: SequenceNumber { SequenceNumber(rawValue == 0 ? 0 : rawValue &- 1) }

    package static func < (left: SequenceNumber, right: SequenceNumber) -> Bool {
        left.rawValue < right.rawValue
    }

    package var description: String { String(rawValue) }
}
