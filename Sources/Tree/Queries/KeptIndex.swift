/// An index of a node's children that is kept while they change.
package enum KeptIndex: Sendable {
    /// No child has a value: the order is that of the keys. So it is with most nodes' priorities, and takes
    /// no memory.
    case withoutValues(ChildOrder)
    case ordered(OrderedIndex)

    /// The index of a node's children. O(n log n).
    /// - Parameter measure: The field whose numbers are summarised; nil for none. A measured index has all
    ///   children, whether they have values or not.
    package init(ordering children: Children, by order: ChildOrder, measuring measure: ChildOrder? = nil) {
        if let measure {
            self = .ordered(OrderedIndex(ordering: children, by: order, measuring: measure))
            return
        }
        let hasValues = !children.forEach { _, child in order.value(of: child).isEmpty }
        self =
            hasValues ? .ordered(OrderedIndex(ordering: children, by: order)) : .withoutValues(order)
    }

    /// By what it orders.
    package var order: ChildOrder {
        switch self {
        case .withoutValues(let order): order
        case .ordered(let index): index.order
        }
    }

    /// The field whose numbers it summarises; nil for none.
    package var measure: ChildOrder? {
        if case .ordered(let index) = self { index.measure } else { nil }
    }

    /// Entries that it has. O(1).
    package var count: Int {
        switch self {
        case .withoutValues: 0
        case .ordered(let index): index.count
        }
    }

    /// Bytes that it takes beside the tree, about. O(pages).
    package var byteCount: Int {
        switch self {
        case .withoutValues: 0
        case .ordered(let index): index.byteCount
        }
    }

    /// Checks all invariants, for tests. Traps if one is violated. O(n log n).
    package func checkInvariants(of children: Children) {
        switch self {
        case .withoutValues(let order):
            precondition(
                children.forEach { _, child in order.value(of: child).isEmpty }, "there are values")
        case .ordered(let index): index.checkInvariants(of: children)
        }
    }

    /// What a write has done to a child.
    package struct ValueChange: Sendable {
        package let key: Key
        /// By what the child was ordered; nil where there was none.
        package let old: Node?
        /// The same after the write.
        package let new: Node?
        /// Whether the number that a measured index counts is another one.
        package let changesNumber: Bool

        /// - Parameters:
        ///   - oldNumber: ``ChildOrder/number(of:)`` before the write, for a measured index.
        ///   - newNumber: The same after it.
        package init(
            key: Key, old: Node?, new: Node?, oldNumber: Node = .empty, newNumber: Node = .empty
        ) {
            self.key = key
            self.old = old
            self.new = new
            changesNumber = oldNumber != newNumber
        }

        /// Whether the child's place in the order is another one.
        package var movesChild: Bool {
            guard let old, let new else { return old != nil || new != nil }
            return Query.compareIndexValues(old, new) != 0
        }
    }

    /// Follows a write.
    /// - Parameters:
    ///   - changes: Every child whose place differs, once; others may be among them.
    ///   - children: The node's children after the write.
    /// - Returns: false where the index must be made anew: the first values have come, or it was wrong.
    /// - Complexity: O(changes × log n).
    package mutating func update(_ changes: some Collection<ValueChange>, in children: Children) -> Bool {
        switch self {
        case .withoutValues: return changes.allSatisfy { $0.new?.isEmpty ?? true }
        case .ordered(var index):
            // So that there is one reference to the pages while they change.
            self = .withoutValues(index.order)
            var isRight = true
            // All removals first: while entries are inserted, the others are ordered by what the children
            // have now.
            for change in changes where change.movesChild {
                if let old = change.old { isRight = index.remove(old, change.key) && isRight }
            }
            assert(isRight, "an index has lost a child")
            for change in changes where change.movesChild {
                if let new = change.new { index.insert(new, change.key, in: children) }
            }
            if index.measure != nil {
                for change in changes where change.changesNumber && !change.movesChild {
                    if let new = change.new { index.discardSummaries(above: new, change.key) }
                }
                index.repair(in: children)
            }
            self = .ordered(index)
            return isRight
        }
    }
}
