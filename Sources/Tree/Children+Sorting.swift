// Sorts the members of an object that was read, and removes all but the last of those with the same name.

extension ContiguousArray<Children.Entry> {
    /// Sorts the entries from `first` on by key. Of those with the same key only the last one stays, and none
    /// if that is `.empty`.
    /// - Parameter keepsEmptyNodes: Whether an `.empty` one stays, too.
    mutating func dropSuperseded(from first: Int, keepingEmptyNodes keepsEmptyNodes: Bool = false) {
        let sortedCount = count - first
        unsafe withUnsafeMutableBufferPointer { stack in
            // In bounds: from `first` on to the end.
            let tail = unsafe UnsafeMutableBufferPointer(rebasing: stack[first...])
            if sortedCount > Children.insertionSortedCount {
                unsafe Children.sort(tail)
            } else {
                unsafe Children.sortByInsertion(tail)
            }
        }
        var kept = first
        for index in first..<count {
            let isSuperseded = index + 1 < count && self[index + 1].key == self[index].key
            if isSuperseded || (!keepsEmptyNodes && self[index].node.isEmpty) { continue }
            if kept < index { swapAt(kept, index) }
            kept += 1
        }
        if kept < count { removeSubrange(kept...) }
    }
}

extension Children {
    /// Up to this many entries are sorted in place, by insertion.
    fileprivate static let insertionSortedCount = 24

    /// Sorts in place. Entries are moved, not copied, so that no reference is counted.
    fileprivate static func sortByInsertion(_ entries: UnsafeMutableBufferPointer<Children.Entry>) {
        guard let base = entries.baseAddress else { return }
        for index in 1..<max(1, entries.count) {
            guard unsafe Key.compare(base[index - 1].key, base[index].key) > 0 else { continue }
            let entry = unsafe (base + index).move()
            var place = index
            repeat {
                unsafe (base + place).moveInitialize(from: base + place - 1, count: 1)
                place -= 1
            } while unsafe place > 0 && Key.compare(base[place - 1].key, entry.key) > 0
            unsafe (base + place).initialize(to: entry)
        }
    }

    /// As ``sortByInsertion(_:)``, for many entries: O(n log n).
    fileprivate static func sort(_ entries: UnsafeMutableBufferPointer<Children.Entry>) {
        struct Position {
            var order: Key.Order
            var index: Int
        }
        guard let base = entries.baseAddress else { return }
        var places = entries.indices.map { unsafe Position(order: base[$0].key.order, index: $0) }
        places.sort { left, right in
            if left.order != right.order { return left.order < right.order }
            let order = unsafe Key.compare(base[left.index].key, base[right.index].key)
            return order != 0 ? order < 0 : left.index < right.index
        }
        let sorted = UnsafeMutablePointer<Children.Entry>.allocate(capacity: entries.count)
        for (index, place) in places.enumerated() {
            unsafe (sorted + index).moveInitialize(from: base + place.index, count: 1)
        }
        unsafe base.moveInitialize(from: sorted, count: entries.count)
        unsafe sorted.deallocate()
    }
}
