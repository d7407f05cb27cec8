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
}
