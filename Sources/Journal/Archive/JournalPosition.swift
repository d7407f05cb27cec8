/// A place in the journal, at the end of an entry.
package struct JournalPosition: Equatable, Sendable {
    package var segment: SegmentName
    /// The offset in the segment.
    package var byteOffset: Int
    /// The last record before it.
    package var sequence: SequenceNumber

    package init(segment: SegmentName, byteOffset: Int, sequence: SequenceNumber) {
        self.segment = segment
        self.byteOffset = byteOffset
        self.sequence = sequence
    }
}

extension Journal {
    /// The end of what was written. When ``sync()`` has returned, everything before it is on disk.
    package var writtenPosition: JournalPosition {
        JournalPosition(
            segment: SegmentName(timeline: timeline, firstSequence: segmentFirstSequence),
            byteOffset: byteOffset, sequence: lastWritten)
    }
}
