/// The files of an archive, by their names, in the order of the journal. All other names are ignored.
package struct ArchiveListing {
    var whole: [SegmentName]
    var partial: [SegmentName]
    /// Timelines of which there is a ``TimelineHistory``.
    var histories: [UInt32]

    package init(_ names: [String]) {
        whole = names.compactMap { SegmentName($0) }.sorted()
        partial = names.compactMap { SegmentName(partial: $0) }.sorted()
        histories = names.compactMap { TimelineHistory.timeline(ofFile: $0) }.sorted()
    }

    /// Whether there is no part of any journal.
    package var isEmpty: Bool { whole.isEmpty && partial.isEmpty }

    /// The newest timeline of which there is a copy of a segment; nil where there is none.
    var newestCopiedTimeline: UInt32? {
        [whole.last?.timeline, partial.last?.timeline].compactMap { $0 }.max()
    }

    /// The newest timeline whose number is taken, by a copy or a history; nil for an empty archive.
    var newestTimeline: UInt32? {
        [newestCopiedTimeline, histories.last].compactMap { $0 }.max()
    }

    /// All copies with their files, the newest first.
    var newestFirst: [(name: SegmentName, file: String)] {
        let all = whole.map { ($0, $0.text) } + partial.map { ($0, $0.partialText) }
        return all.sorted { $1.0 < $0.0 }
    }
}

extension SegmentName {
    /// What follows the name of a segment that is not yet there as a whole.
    private static let partialEnd = ".partial"

    /// The name of the copy until it is whole.
    var partialText: String { text + Self.partialEnd }

    /// Reads a name that ``partialText`` writes; nil for any other.
    init?(partial name: String) {
        guard name.hasSuffix(Self.partialEnd) else { return nil }
        self.init(String(name.dropLast(Self.partialEnd.count)))
    }

    func isBehind(_ other: SegmentName?) -> Bool { other.map { self > $0 } ?? true }
}
