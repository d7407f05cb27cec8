/// The names of the journal's files: `PREFIX-00000001-0000000000000001SUFFIX`, timeline and sequence in hex,
/// so that the names of one timeline sort in the order of the journal.
private enum FileName {
    static func text(_ prefix: String, _ timeline: UInt32, _ sequence: SequenceNumber, _ suffix: String)
        -> String
    {
        prefix + hexadecimal(UInt64(timeline), digits: 8) + "-" + hexadecimal(sequence.rawValue, digits: 16)
            + suffix
    }

    /// Reads a name that ``text(_:_:_:_:)`` writes; nil for any other.
    static func read(_ name: String, _ prefix: String, _ suffix: String) -> (UInt32, SequenceNumber)? {
        let parts = name.dropFirst(prefix.count).dropLast(suffix.count).split(
            separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, let timeline = UInt32(parts[0], radix: 16),
            let number = UInt64(parts[1], radix: 16)
        else { return nil }
        let sequence = SequenceNumber(number)
        return text(prefix, timeline, sequence, suffix) == name ? (timeline, sequence) : nil
    }
}

/// The name of a segment: `journal-00000001-0000000000000001.log`.
package struct SegmentName: Hashable, Comparable, Sendable {
    package let timeline: UInt32
    package let firstSequence: SequenceNumber

    package init(timeline: UInt32, firstSequence: SequenceNumber) {
        self.timeline = timeline
        self.firstSequence = firstSequence
    }

    static let prefix = "journal-"
    static let suffix = ".log"
    /// The end of a segment's name until its header is on disk.
    static let unfinishedSuffix = ".log.new"

    package var text: String { FileName.text(Self.prefix, timeline, firstSequence, Self.suffix) }

    /// The name of the file until its header is on disk.
    var unfinishedText: String { text + ".new" }

    /// Reads a name that ``text`` writes; nil for any other.
    package init?(_ name: String) {
        guard let (timeline, sequence) = FileName.read(name, Self.prefix, Self.suffix) else { return nil }
        self.init(timeline: timeline, firstSequence: sequence)
    }

    package static func < (left: SegmentName, right: SegmentName) -> Bool {
        (left.timeline, left.firstSequence) < (right.timeline, right.firstSequence)
    }
}

/// The name of a checkpoint: `checkpoint-00000001-000000000000002a.chk`, with the sequence that it covers.
package struct CheckpointName: Hashable, Comparable, Sendable {
    package let timeline: UInt32
    package let sequence: SequenceNumber

    package init(timeline: UInt32, sequence: SequenceNumber) {
        self.timeline = timeline
        self.sequence = sequence
    }

    static let prefix = "checkpoint-"
    static let suffix = ".chk"
    /// What follows the name of a checkpoint, or of a backup, until it is whole.
    package static let unfinishedEnd = ".new"
    static let unfinishedSuffix = suffix + unfinishedEnd

    package var text: String { FileName.text(Self.prefix, timeline, sequence, Self.suffix) }

    /// Reads a name that ``text`` writes; nil for any other.
    package init?(_ name: String) {
        guard let (timeline, sequence) = FileName.read(name, Self.prefix, Self.suffix) else { return nil }
        self.init(timeline: timeline, sequence: sequence)
    }

    package static func < (left: CheckpointName, right: CheckpointName) -> Bool {
        (left.timeline, left.sequence) < (right.timeline, right.sequence)
    }
}
