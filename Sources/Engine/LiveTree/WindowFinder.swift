import PandoTree

/// Finds the windows of one location that an altered child may touch, without asking each, and without
/// asking each order: orders by `members/UID` are as many as there are users.
///
/// - An order by a path below each child is asked when the child has data there (``OrderPaths``).
/// - A child without data at the order's path is sorted before all values, by its key: its place is the same
///   in all orders with as many fields. Windows whose range includes such places are in ``withoutValue``.
///
/// Always true: `byOrder` holds each inserted range once, no order is empty, and `withoutValue` holds exactly
/// the ranges that include children without a value.
struct WindowFinder {
    private var byOrder: [ChildOrder: WindowRanges] = [:]
    private var paths = OrderPaths()
    /// Windows that children without value are in, or may enter, by the number of fields of their order.
    private var withoutValue: [Int: WindowRanges] = [:]

    var isEmpty: Bool { byOrder.isEmpty }

    /// The number of different orders.
    var orderCount: Int { byOrder.count }

    // MARK: Changing

    /// Adds the range of a window. O(fields × depth + log n).
    mutating func insert(_ range: WindowRanges.Range) {
        let order = range.view.query.order
        byOrder[order, default: WindowRanges()].insert(range)
        paths.insert(order)
        if let fieldCount = Self.fieldCountWithoutValue(range) {
            withoutValue[fieldCount, default: WindowRanges()].insert(range)
        }
    }

    /// Removes a range that is there, as it was added. O(fields × depth + log n).
    mutating func remove(_ range: WindowRanges.Range) {
        let order = range.view.query.order
        if Self.remove(range, from: &byOrder, order) { paths.remove(order) }
        if let fieldCount = Self.fieldCountWithoutValue(range) {
            _ = Self.remove(range, from: &withoutValue, fieldCount)
        }
    }

    /// - Returns: Whether it was the last range there.
    private static func remove<Place: Hashable>(
        _ range: WindowRanges.Range, from all: inout [Place: WindowRanges], _ place: Place
    ) -> Bool {
        guard let index = all.index(forKey: place) else { return false }
        all.values[index].remove(range)
        guard all.values[index].isEmpty else { return false }
        all.remove(at: index)
        return true
    }

    /// The number of fields of a range's order, where the range reaches children that have no value in it.
    /// Nil where it does not, and for orders in which a key or a priority decides.
    private static func fieldCountWithoutValue(_ range: WindowRanges.Range) -> Int? {
        let order = range.view.query.order
        guard let fields = order.fields else { return nil }
        let none = order.value(of: .empty)
        let (first, last) = (IndexPlace(none, .lowest), IndexPlace(none, .highest))
        if let low = range.low, IndexPlace.compare(low, last) > 0 { return nil }
        if let high = range.high, IndexPlace.compare(high, first) < 0 { return nil }
        return fields.count
    }

    // MARK: Finding

    /// The views whose windows one of the children was in, is in, or has to enter, in the order in which the
    /// views came.
    /// - Parameters:
    ///   - isLeftOut: Views that are stale already need not be found.
    ///   - budget: Its views and comparisons are spent.
    /// - Returns: Nil where the budget does not last for all of them.
    /// - Complexity: The number of fields of each child that some order uses, and, for each of these orders,
    ///   at most (windows / 64 + 64 × views found) × log(children) comparisons.
    func views(
        touchedBy altered: [ChildChange], exceptWhere isLeftOut: (QueryView) -> Bool = { _ in false },
        spending budget: inout UpdateBudget
    ) -> [QueryView]? {
        var children: [AlteredChild] = []
        for change in altered {
            if !change.old.isEmpty { children.append(AlteredChild(key: change.key, node: change.old)) }
            if !change.new.isEmpty { children.append(AlteredChild(key: change.key, node: change.new)) }
        }
        // A write names its children in any order.
        if children.count > 1 { children.sort { $0.key < $1.key } }
        var found = Found(viewLimit: budget.viewsLeft, comparisonsLeft: budget.comparisonsLeft)
        for order in Self.ordersOfAllChildren {
            find(children.indices, of: children, by: order, isLeftOut, &found)
        }
        /// By order, the indices of the children that have data in it; ascending.
        var withData: [ChildOrder: [Int]] = [:]
        for (index, child) in children.enumerated() {
            paths.forEachOrder(ofDataIn: child.node) { order in
                // An order of several fields comes once for each.
                if withData[order]?.last != index { withData[order, default: []].append(index) }
            }
        }
        // Which of them exceeds the budget does not matter: either one does, or none.
        for (order, indices) in withData { find(indices, of: children, by: order, isLeftOut, &found) }
        for windows in withoutValue.values {
            findWithoutValue(children, withData, in: windows, isLeftOut, &found)
        }
        budget.comparisonsLeft = max(0, found.comparisonsLeft)
        guard !found.isExceeded else { return nil }
        budget.viewsLeft -= found.views.count
        if found.views.count < 2 { return Array(found.views.values) }
        // The order of a hash table would differ from machine to machine.
        return found.views.sorted { $0.key < $1.key }.map(\.value)
    }

    /// The views that were found so far, by number, and what may still be done to find more.
    private struct Found {
        private(set) var views: [Int: QueryView] = [:]
        let viewLimit: Int
        var comparisonsLeft: Int

        init(viewLimit: Int, comparisonsLeft: Int) {
            (self.viewLimit, self.comparisonsLeft) = (viewLimit, comparisonsLeft)
        }

        var isExceeded: Bool { comparisonsLeft < 0 || views.count > viewLimit }

        mutating func insert(_ range: WindowRanges.Range, _ comparisonsLeft: inout Int) {
            views[range.number] = range.view
            // Too many: nothing more is compared.
            if views.count > viewLimit { comparisonsLeft = -1 }
        }
    }

    /// A child before a write, or after it.
    private struct AlteredChild {
        let key: Key
        let node: Node
    }

    private func find(
        _ indices: some Sequence<Int>, of children: [AlteredChild], by order: ChildOrder,
        _ isLeftOut: (QueryView) -> Bool, _ found: inout Found
    ) {
        guard !found.isExceeded, let windows = byOrder[order] else { return }
        var values = indices.map { index in
            let (key, value) = (children[index].key, order.value(of: children[index].node))
            return (place: IndexPlace(value, .key(key)), value: value, key: key)
        }
        if values.count > 1 { values.sort { IndexPlace.compare($0.place, $1.place) < 0 } }
        var left = found.comparisonsLeft
        let isComplete = windows.forEach(atAnyOf: values.map(\.place), &left) { range, first, left in
            if isLeftOut(range.view) { return }
            for (place, value, key) in values[first...] {
                left -= 1
                if left < 0 { return }
                if let high = range.high, IndexPlace.compare(high, place) < 0 { return }
                if range.view.window.admits(value, key) { return found.insert(range, &left) }
            }
        }
        found.comparisonsLeft = isComplete ? left : -1
    }

    /// - Parameters:
    ///   - children: In the order of their keys.
    ///   - withData: As in ``views(touchedBy:)``: the others of an order have no value in it.
    ///   - windows: Those of ``withoutValue`` of one number of fields.
    private func findWithoutValue(
        _ children: [AlteredChild], _ withData: [ChildOrder: [Int]], in windows: WindowRanges,
        _ isLeftOut: (QueryView) -> Bool, _ found: inout Found
    ) {
        guard !found.isExceeded, let none = windows.first?.view.query.order.value(of: .empty) else { return }
        let places = children.map { IndexPlace(none, .key($0.key)) }
        var left = found.comparisonsLeft
        let isComplete = windows.forEach(atAnyOf: places, &left) { range, first, left in
            if isLeftOut(range.view) { return }
            let window = range.view.window
            let others = withData[window.query.order] ?? []
            var index = Self.firstIndex(from: first, notIn: others)
            while index < places.count {
                left -= 1
                if left < 0 { return }
                if let high = range.high, IndexPlace.compare(high, places[index]) < 0 { return }
                if window.admits(none, children[index].key) { return found.insert(range, &left) }
                index = Self.firstIndex(from: index + 1, notIn: others)
            }
        }
        found.comparisonsLeft = isComplete ? left : -1
    }

    /// The first number from `start` on that is not among ascending ones. O(log numbers).
    static func firstIndex(from start: Int, notIn numbers: [Int]) -> Int {
        func firstPosition(_ isThere: (Int) -> Bool) -> Int {
            var (low, high) = (0, numbers.count)
            while low < high {
                let middle = (low + high) / 2
                if isThere(middle) { high = middle } else { low = middle + 1 }
            }
            return low
        }
        let first = firstPosition { numbers[$0] >= start }
        // As long as they follow one another, they ascend as their positions do.
        let end = firstPosition { $0 >= first && numbers[$0] - start > $0 - first }
        return start + end - first
    }

    /// Those in which each child has a place of its own, whatever data it has.
    private static let ordersOfAllChildren: [ChildOrder] = [.key, .value, .priority]

    // MARK: Invariants

    /// How many ranges there are; for tests. Traps when an invariant is violated. O(ranges).
    func checkInvariants() -> Int {
        var count = 0
        precondition(paths.isEmpty == byOrder.keys.allSatisfy { $0.fields == nil }, "an order is left")
        for (order, windows) in byOrder {
            precondition(!windows.isEmpty, "an order without windows is left")
            precondition(
                order.fields?.allSatisfy { paths.contains(order, at: $0) } ?? true, "an order is missing")
            count += windows.checkInvariants()
        }
        for windows in withoutValue.values {
            precondition(windows.checkInvariants() > 0, "no windows are left")
        }
        return count
    }
}
