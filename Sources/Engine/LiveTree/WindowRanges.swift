import PandoTree

/// The windows of one location and one order, by their ranges in that order: those that a changed child may
/// touch are found without asking each.
///
///     page   [ range range … ]   by (low, number); at most 64
///     page   [ range … ]         with the highest end of its ranges
///
/// A page whose ranges all end before a place is skipped, and so are all pages after the place.
///
/// Always true: ranges ascend by (low, number), no page is empty, and a page's `high` is that of its highest
/// range.
struct WindowRanges {
    /// A window's range.
    struct Range {
        /// The first place; nil for the beginning of the order.
        var low: IndexPlace?
        /// The last place; nil for the end of the order.
        var high: IndexPlace?
        /// Distinguishes windows with the same beginning.
        let number: Int
        let view: QueryView

        /// Whether it begins before another, or is the same.
        func isNotAfter(_ other: Range) -> Bool {
            switch (low, other.low) {
            case (nil, nil): return number <= other.number
            case (nil, _?): return true
            case (_?, nil): return false
            case (let a?, let b?):
                let order = IndexPlace.compare(a, b)
                return order < 0 || order == 0 && number <= other.number
            }
        }
    }

    private struct Page {
        private(set) var ranges: [Range]
        /// Nil where some range has no end.
        private(set) var high: IndexPlace?

        init(_ ranges: [Range]) {
            self.ranges = ranges
            high = Self.high(of: ranges)
        }

        /// Inserts a range in its order. O(page).
        mutating func insert(_ range: Range) {
            ranges.insert(range, at: ranges.firstIndex { !$0.isNotAfter(range) } ?? ranges.count)
            guard let highest = high else { return }
            high = range.high.map { IndexPlace.compare($0, highest) > 0 ? $0 : highest }
        }

        /// Removes the range with a number, if it is there. O(page).
        mutating func remove(_ number: Int) {
            guard let index = ranges.firstIndex(where: { $0.number == number }) else { return }
            let removed = ranges.remove(at: index)
            // Another range decides, as long as this one was lower.
            guard removed.high == nil || removed.high == high else { return }
            high = Self.high(of: ranges)
        }

        /// Moves the upper half of the ranges out.
        mutating func split() -> Page {
            let middle = ranges.count / 2
            let upper = Page(Array(ranges[middle...]))
            ranges.removeSubrange(middle...)
            high = Self.high(of: ranges)
            return upper
        }

        private static func high(of ranges: [Range]) -> IndexPlace? {
            guard var highest = ranges.first?.high else { return nil }
            for range in ranges.dropFirst() {
                guard let high = range.high else { return nil }
                if IndexPlace.compare(high, highest) > 0 { highest = high }
            }
            return highest
        }
    }

    private static let pageCapacity = 64

    private var pages: [Page] = []

    var isEmpty: Bool { pages.isEmpty }

    var first: Range? { pages.first?.ranges.first }

    /// The index of the last page that begins before a range or with it; 0 where none does. O(log pages).
    private func page(of range: Range) -> Int {
        var (low, high) = (1, max(1, pages.count))
        while low < high {
            let middle = (low + high) / 2
            if pages[middle].ranges[0].isNotAfter(range) { low = middle + 1 } else { high = middle }
        }
        return low - 1
    }

    /// Adds a range. O(log pages + page).
    mutating func insert(_ range: Range) {
        guard !pages.isEmpty else { return pages = [Page([range])] }
        let index = page(of: range)
        pages[index].insert(range)
        if pages[index].ranges.count > Self.pageCapacity {
            let upper = pages[index].split()
            pages.insert(upper, at: index + 1)
        }
    }

    /// Removes a range that is there, as it was added. O(log pages + page).
    mutating func remove(_ range: Range) {
        guard !pages.isEmpty else { return }
        let index = page(of: range)
        pages[index].remove(range.number)
        if pages[index].ranges.isEmpty { pages.remove(at: index) }
    }

    /// Calls `body` for each range that has one of some places, with the index of the first place in it.
    /// - Parameters:
    ///   - places: In ascending order.
    ///   - comparisonsLeft: Ranges that may still be compared.
    /// - Returns: Whether all were visited; false when `comparisonsLeft` is used up.
    /// - Complexity: O((pages + 64 × ranges that have one) × log places), at most.
    func forEach(
        atAnyOf places: [IndexPlace], _ comparisonsLeft: inout Int,
        _ body: (Range, _ first: Int, _ comparisonsLeft: inout Int) -> Void
    ) -> Bool {
        // Spans lend their elements: to copy a range costs more than to compare it.
        let pages = pages.span
        for pageIndex in pages.indices {
            let ranges = pages[pageIndex].ranges.span
            let first = Self.firstIndex(notBefore: ranges[0].low, in: places)
            guard first < places.count else { return true }
            if let high = pages[pageIndex].high, IndexPlace.compare(high, places[first]) < 0 { continue }
            for index in ranges.indices {
                comparisonsLeft -= 1
                if comparisonsLeft < 0 { return false }
                let first = Self.firstIndex(notBefore: ranges[index].low, in: places)
                guard first < places.count else { break }
                if let high = ranges[index].high, IndexPlace.compare(high, places[first]) < 0 { continue }
                body(ranges[index], first, &comparisonsLeft)
            }
        }
        return true
    }

    /// The index of the first place that is not before a beginning; that of the first one for none.
    private static func firstIndex(notBefore beginning: IndexPlace?, in places: [IndexPlace]) -> Int {
        guard let beginning else { return 0 }
        var (low, high) = (0, places.count)
        while low < high {
            let middle = (low + high) / 2
            if IndexPlace.compare(places[middle], beginning) < 0 { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// How many ranges there are; for tests. Traps when an invariant is violated. O(ranges).
    func checkInvariants() -> Int {
        var previous: Range?
        for page in pages {
            precondition(!page.ranges.isEmpty && page.ranges.count <= Self.pageCapacity)
            for range in page.ranges {
                if let previous { precondition(!range.isNotAfter(previous), "ranges do not ascend") }
                if let high = page.high {
                    precondition(
                        range.high.map { IndexPlace.compare($0, high) <= 0 } ?? false, "a page's end is wrong"
                    )
                }
                previous = range
            }
        }
        return pages.reduce(0) { $0 + $1.ranges.count }
    }
}
