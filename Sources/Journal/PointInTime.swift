/// A past moment of a data directory, up to which it can be read again.
package enum PointInTime: Equatable, Sendable, CustomStringConvertible {
    /// The last record that counts. An entry that ends behind it does not count, since entries are
    /// indivisible.
    case sequence(SequenceNumber)
    /// Milliseconds since 1970. Entries of this millisecond count.
    case time(Int64)

    package var description: String {
        switch self {
        case .sequence(let sequence): "sequence \(sequence)"
        case .time(let milliseconds): "time \(milliseconds)"
        }
    }

    /// Whether everything in the checkpoint counts. The time of a checkpoint may be later than that of its
    /// last record. Then it may be skipped without need, and the one before and the journal give the same
    /// state.
    func includes(_ header: CheckpointHeader) -> Bool {
        switch self {
        case .sequence(let sequence): header.sequence <= sequence
        case .time(let milliseconds): header.timestamp <= milliseconds
        }
    }

    func includes(entryEndingWith sequence: SequenceNumber, at timestamp: Int64) -> Bool {
        switch self {
        case .sequence(let last): sequence <= last
        case .time(let milliseconds): timestamp <= milliseconds
        }
    }
}
