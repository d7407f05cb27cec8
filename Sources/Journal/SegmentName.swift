/// The name of a segment: `journal-00000001-0000000000000001.log`, timeline and first sequence in hex, so
/// that the names of one timeline sort as the log does.
package struct SegmentName: Hashable, Comparable, Sendable {
    package let timeline: UInt32
    package let firstSequence: SequenceNumber

    package init(timeline: UInt32, firstSequence: SequenceNumber) {
        self.timeline = timeline
        self.firstSequence = firstSequence
    }

    static let prefix = "journal-"
    static let suffix = ".log"
    /// What a segment's name ends in until its header is on disk.
    static let unfinishedSuffix = ".log.new"

    package var text: String {
        Self.prefix + hexadecimal(UInt64(timeline), digits: 8) + "-"
            + hexadecimal(firstSequence.rawValue, digits: 16) + Self.suffix
    }

    /// The name under which the header is written.
    var unfinishedText: String { text + ".new" }

    /// Reads exactly what ``text`` writes.
    package init?(_ name: String) {
        let parts = name.dropFirst(Self.prefix.count).dropLast(Self.suffix.count).split(
            separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, let timeline = UInt32(parts[0], radix: 16),
            let firstSequence = UInt64(parts[1], radix: 16)
        else { return nil }
        self.init(timeline: timeline, firstSequence: SequenceNumber(firstSequence))
        guard text == name else { return nil }
    }

    package static func < (left: SegmentName, right: SegmentName) -> Bool {
        (left.timeline, left.firstSequence) < (right.timeline, right.firstSequence)
    }

    /// What the names in a data directory mean to the journal; everything else in it belongs to somebody
    /// else.
    struct Listing {
        /// In log order.
        var segments: [SegmentName] = []
        /// Called like a segment, but not by us.
        var unreadable: [String] = []
        /// Segments whose making a crash interrupted: they hold no record.
        var unfinished: [String] = []

        init(_ names: [String]) {
            for name in names.sorted() where name.hasPrefix(SegmentName.prefix) {
                if let segment = SegmentName(name) {
                    segments.append(segment)
                } else if name.hasSuffix(SegmentName.unfinishedSuffix) {
                    unfinished.append(name)
                } else if name.hasSuffix(SegmentName.suffix) {
                    unreadable.append(name)
                }
            }
            segments.sort()
        }
    }
}
