import PandoTree

/// Where a check of a session's listens goes on, a part at a time: filtered listens first, of each kind the
/// last first. The end of a listen that was checked moves only others that were checked, so none is passed
/// over.
///
/// The session must get no new listens until the check is done.
package struct ListenCursor: Sendable {
    /// Listens at the front of those of the session that are not checked yet.
    private var defaultCount = 0
    private var filteredCount = 0

    /// No listens.
    package static let none = ListenCursor()

    init() {}

    init(_ listens: SessionListens) {
        defaultCount = listens.defaults.count
        filteredCount = listens.filtered.count
    }

    /// Whether all are checked.
    package var isDone: Bool { defaultCount == 0 && filteredCount == 0 }

    /// Listens that are not checked yet.
    package var count: Int { defaultCount + filteredCount }

    /// Moves on to the next listen; nil where there is none.
    mutating func next(of listens: SessionListens) -> Listen? {
        filteredCount = min(filteredCount, listens.filtered.count)
        if filteredCount > 0 {
            filteredCount -= 1
            let key = listens.filtered.members[filteredCount]
            return Listen(path: key.path, query: key.query, tag: key.tag)
        }
        defaultCount = min(defaultCount, listens.defaults.count)
        guard defaultCount > 0 else { return nil }
        defaultCount -= 1
        return Listen(path: listens.defaults.members[defaultCount])
    }
}
