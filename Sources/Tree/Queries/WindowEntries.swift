/// The children of a window, in its query's order, in pages: a window over a million children takes a write
/// as one over a thousand does.
///
/// Always true: no page is empty, none holds more than ``pageCapacity`` entries, and ``count`` is the sum of
/// all.
package struct WindowEntries: Sequence, Sendable {

    /// Entries of a page: as many as one insertion may move.
    private static let pageCapacity = 128

    private var pages: [[WindowEntry]] = []
    /// How many entries there are.
    package private(set) var count = 0

    /// No entries.
    init() {}

    /// - Parameter entries: In the query's order. O(entries).
    init(_ entries: [WindowEntry]) { append(contentsOf: entries) }

    package var isEmpty: Bool { pages.isEmpty }
    /// For tests.
    var pageCount: Int { pages.count }
    package var first: WindowEntry? { pages.first?.first }
    package var last: WindowEntry? { pages.last?.last }

    package func makeIterator() -> FlattenSequence<[[WindowEntry]]>.Iterator { pages.joined().makeIterator() }

    package var underestimatedCount: Int { count }

    /// Where an entry is, or would be inserted.
    struct Position {
        fileprivate let page: Int
        fileprivate let index: Int
        /// Whether the entry is there.
        let isPresent: Bool
    }

    /// Finds an entry.
    /// - Parameter compare: How an entry is ordered to the one that is looked for: < 0 where it precedes
    ///   that.
    /// - Complexity: O(log entries) comparisons.
    func position(_ compare: (WindowEntry) -> Int) -> Position {
        // The last page whose first entry is not behind it.
        var (low, high) = (0, pages.count)
        while low < high {
            let middle = (low + high) / 2
            if compare(pages[middle][0]) <= 0 { low = middle + 1 } else { high = middle }
        }
        guard low > 0 else { return Position(page: 0, index: 0, isPresent: false) }
        let page = low - 1
        (low, high) = (0, pages[page].count)
        while low < high {
            let middle = (low + high) / 2
            let order = compare(pages[page][middle])
            if order == 0 { return Position(page: page, index: middle, isPresent: true) }
            if order < 0 { low = middle + 1 } else { high = middle }
        }
        return Position(page: page, index: low, isPresent: false)
    }

    /// Inserts an entry at its position. O(page + pages / page).
    mutating func insert(_ entry: WindowEntry, at position: Position) {
        count += 1
        guard !pages.isEmpty else { return pages = [[entry]] }
        let page = position.page
        pages[page].insert(entry, at: position.index)
        guard pages[page].count > Self.pageCapacity else { return }
        // A window that grows at its end keeps full pages.
        let isAtEnd = page == pages.count - 1 && position.index == Self.pageCapacity
        let cut = isAtEnd ? Self.pageCapacity : Self.pageCapacity / 2
        let rest = Array(pages[page][cut...])
        pages[page].removeSubrange(cut...)
        pages.insert(rest, at: page + 1)
    }

    /// Removes and returns the entry at a position where one is. O(page + pages / page).
    mutating func remove(at position: Position) -> WindowEntry {
        count -= 1
        let entry = pages[position.page].remove(at: position.index)
        joinIfSmall(position.page)
        return entry
    }

    /// Joins a page that has become small with one beside it, so that pages stay as many as entries need,
    /// about.
    private mutating func joinIfSmall(_ page: Int) {
        if pages[page].isEmpty {
            pages.remove(at: page)
            return
        }
        guard pages[page].count < Self.pageCapacity / 4 else { return }
        for left in [page - 1, page] where left >= 0 && left + 1 < pages.count {
            guard pages[left].count + pages[left + 1].count <= Self.pageCapacity * 3 / 4 else { continue }
            pages[left] += pages[left + 1]
            pages.remove(at: left + 1)
            return
        }
    }

    /// Adds entries behind all others. O(entries).
    mutating func append(contentsOf entries: [WindowEntry]) {
        pages += Self.pages(of: entries)
        count += entries.count
    }

    /// Adds entries before all others. O(entries + pages).
    mutating func prepend(contentsOf entries: [WindowEntry]) {
        pages.insert(contentsOf: Self.pages(of: entries), at: 0)
        count += entries.count
    }

    private static func pages(of entries: [WindowEntry]) -> [[WindowEntry]] {
        stride(from: 0, to: entries.count, by: pageCapacity).map {
            Array(entries[$0..<Swift.min($0 + pageCapacity, entries.count)])
        }
    }

    /// Removes and returns the last entries, in their order. O(removed + page).
    mutating func removeLast(_ removedCount: Int) -> [WindowEntry] {
        var removed: [[WindowEntry]] = []
        var left = removedCount
        while left > 0, let page = pages.last {
            let kept = Swift.max(0, page.count - left)
            removed.append(Array(page[kept...]))
            left -= page.count - kept
            if kept == 0 { pages.removeLast() } else { pages[pages.count - 1].removeSubrange(kept...) }
        }
        count -= removedCount - left
        return removed.reversed().flatMap { $0 }
    }

    /// Removes and returns the first entries, in their order. O(removed + page + pages).
    mutating func removeFirst(_ removedCount: Int) -> [WindowEntry] {
        var removed: [WindowEntry] = []
        var (left, emptied) = (removedCount, 0)
        for page in pages.indices where left > 0 {
            let taken = Swift.min(left, pages[page].count)
            removed += pages[page][..<taken]
            left -= taken
            if taken == pages[page].count { emptied += 1 } else { pages[page].removeSubrange(..<taken) }
        }
        pages.removeSubrange(..<emptied)
        count -= removedCount - left
        return removed
    }

    /// Checks all invariants, for tests. Traps if one is violated. O(pages).
    func checkInvariants() {
        for page in pages { precondition(!page.isEmpty && page.count <= Self.pageCapacity, "a page's size") }
        precondition(pages.reduce(0) { $0 + $1.count } == count, "miscounted")
    }
}
