import PandoTree

// A write above very many filtered listens may alter the windows of each. They are not updated in the step of
// the write, but some in each of later steps:
//
//     write ──▶ few filtered listens      their windows are updated, in the same step
//           └─▶ many ──▶ ViewSweep ──▶ finish(.swept) ──▶ some windows, with the data of then ──▶ pushes
//                            ▲                └─▶ not all of them: another step
//                            └─ between two steps the caller has time for others
//
// Until the sweep reaches a window, the window is as it was before the write: it awaits the sweep. If another
// write or a listen needs the window earlier, that updates it, or has it replaced (``QueryView``).

/// The windows and live aggregates below a location that are to be updated.
struct ViewSweep: Sendable {
    /// A part of one session's filtered listens.
    private struct Part: Sendable {
        let session: SessionID
        /// Shares storage with the registry.
        let keys: [FilteredListenKey]
        var next: Int
        let end: Int
    }

    /// All of them are at this location or below it.
    let base: Path
    /// A view with a lesser ``QueryView/checkedSweep`` awaits it.
    let number: Int
    private var parts: [Part] = []
    private var firstPart = 0

    /// Filtered listens at short paths (``ListenCost/visits(at:)``) that are looked at in one step: a
    /// fraction of a millisecond.
    static let stepVisits = 512

    /// - Parameters:
    ///   - listens: The filtered listens of all sessions, in the order of sessions.
    ///   - previous: A sweep that is not done. The new one is of what is left of that, too, and goes on
    ///     from the same listen: however much is written, each listen gets its turn.
    init(
        below base: Path, number: Int, _ listens: [(session: SessionID, keys: [FilteredListenKey])],
        following previous: ViewSweep?
    ) {
        self.number = number
        guard let previous, let next = previous.nextPart else {
            self.base = base
            parts = listens.map { Part(session: $0.session, keys: $0.keys, next: 0, end: $0.keys.count) }
            return
        }
        self.base = Path(Array(base.keys[..<base.sharedDepth(with: previous.base)]))
        let start = listens.firstIndex { $0.session.rawValue >= next.session.rawValue } ?? listens.count
        var last: Part?
        for (session, keys) in listens[start...] + listens[..<start] {
            let isCurrent = session == next.session
            let first = isCurrent ? min(next.next, keys.count) : 0
            parts.append(Part(session: session, keys: keys, next: first, end: keys.count))
            if first > 0 { last = Part(session: session, keys: keys, next: 0, end: first) }
        }
        if let last { parts.append(last) }
    }

    private var nextPart: Part? { firstPart < parts.count ? parts[firstPart] : nil }

    var isDone: Bool { firstPart == parts.count }

    /// The filtered listen that comes next; nil where there is none.
    mutating func next() -> FilteredListenKey? {
        while firstPart < parts.count {
            let index = parts[firstPart].next
            guard index < parts[firstPart].end else {
                firstPart += 1
                continue
            }
            parts[firstPart].next += 1
            return parts[firstPart].keys[index]
        }
        return nil
    }
}
