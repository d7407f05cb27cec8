import PandoTree

extension LiveTree {
    /// How much is kept beside the data.
    package struct Counts: Equatable, Sendable {
        package var defaultListens = 0
        package var filteredListens = 0
        /// Queries whose windows are kept, over all locations; several listeners may share one.
        package var windows = 0
        /// Indexes, ready or being built.
        package var indexes = 0
        package var onDemandIndexBytes = 0
        /// Children in the indexes that are ready; a child counts in each of them.
        package var indexEntries = 0

        package init() {}

        package static func += (left: inout Self, right: Self) {
            left.defaultListens += right.defaultListens
            left.filteredListens += right.filteredListens
            left.windows += right.windows
            left.indexes += right.indexes
            left.onDemandIndexBytes += right.onDemandIndexBytes
            left.indexEntries += right.indexEntries
        }
    }

    /// O(locations with indexes).
    package var counts: Counts {
        var counts = Counts()
        counts.defaultListens = listens.defaultCount
        counts.filteredListens = listens.filteredCount
        counts.windows = listens.table.viewCount
        counts.indexes = indexes.count
        counts.onDemandIndexBytes = indexes.onDemandByteCount
        counts.indexEntries = indexes.entryCount
        return counts
    }

    /// Some of the locations that a session listens to. O(count).
    package func listenPaths(of session: SessionID, atMost count: Int) -> [Path] {
        guard let own = listens[session] else { return [] }
        let defaults = own.defaults.members.prefix(count)
        let left = max(0, count - defaults.count)
        return Array(defaults) + own.filtered.members.prefix(left).map(\.path)
    }
}
