/// A place in the log, at the end of an entry.
package struct LogPosition: Equatable, Sendable {
    package var segment: SegmentName
    /// The offset in the segment.
    package var byteOffset: Int

    package init(segment: SegmentName, byteOffset: Int) {
        self.segment = segment
        self.byteOffset = byteOffset
    }
}

extension Journal {
    /// The end of what was written. When ``sync()`` has returned, everything before it is on disk.
    package var writtenPosition: LogPosition {
        LogPosition(
            segment: SegmentName(timeline: timeline, firstSequence: segmentFirstSequence),
            byteOffset: byteOffset)
    }
}
