/// What the names in a data directory mean to the journal; everything else in it belongs to somebody else.
struct Listing {
    /// In log order.
    var segments: [SegmentName] = []
    /// The oldest first.
    var checkpoints: [CheckpointName] = []
    /// Called like a segment or a checkpoint, but not by us.
    var unreadable: [String] = []
    /// Files whose making a crash interrupted: nobody relies on them.
    var unfinished: [String] = []

    init(_ names: [String]) {
        for name in names.sorted() {
            if name.hasPrefix(SegmentName.prefix) {
                if let segment = SegmentName(name) {
                    segments.append(segment)
                } else if name.hasSuffix(SegmentName.unfinishedSuffix) {
                    unfinished.append(name)
                } else if name.hasSuffix(SegmentName.suffix) {
                    unreadable.append(name)
                }
            } else if name.hasPrefix(CheckpointName.prefix) {
                if let checkpoint = CheckpointName(name) {
                    checkpoints.append(checkpoint)
                } else if name.hasSuffix(CheckpointName.unfinishedSuffix) {
                    unfinished.append(name)
                } else if name.hasSuffix(CheckpointName.suffix) {
                    unreadable.append(name)
                }
            }
        }
        segments.sort()
        checkpoints.sort()
    }

    /// Names of segments and checkpoints of timelines that a restore has ended; the next start removes them.
    private(set) var superseded: [String] = []

    /// Leaves out what belongs to former timelines, once a checkpoint that begins a new one is there.
    ///
    /// Until the start that removes the former, such a checkpoint is alone in its timeline. Any other mixture
    /// is none of our making, and is left for recovery to refuse.
    func ofCurrentTimeline<Storage: Disk>(on disk: Storage) throws(DiskFailure) -> Listing {
        guard let newest = checkpoints.last, segments.last.map({ $0.timeline < newest.timeline }) ?? true,
            segments.contains(where: { $0.timeline != newest.timeline })
                || checkpoints.contains(where: { $0.timeline != newest.timeline }),
            checkpoints.filter({ $0.timeline == newest.timeline }).count == 1
        else { return self }
        do throws(JournalError) {
            guard try CheckpointReader.open(newest, on: disk).header.beginsLog else { return self }
        } catch {
            if case .disk(let failure) = error { throw failure }
            // Damaged: recovery says so.
            return self
        }
        var current = self
        current.superseded = segments.map(\.text) + checkpoints.dropLast().map(\.text)
        current.segments = []
        current.checkpoints = [newest]
        return current
    }
}
