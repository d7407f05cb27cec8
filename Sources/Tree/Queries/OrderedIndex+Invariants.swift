extension OrderedIndex {
    /// Checks all invariants of the type, for tests. Traps if one is violated. O(n log n).
    package func checkInvariants(of children: Children) {
        precondition(count == children.count, "an entry is missing, or there is one too many")
        precondition(
            root.checkInvariants(isRoot: true, isMeasured: measure != nil) == 1,
            "pages of one level differ in depth")
        let query = Query(order: order)
        var previous: (value: Node, key: Key)?
        forEach(in: 0..<count) { key in
            precondition(!children[key].isEmpty, "there is an entry without a child")
            let place = (value: order.value(of: children[key]), key: key)
            if let previous { precondition(query.compare(previous, place) < 0, "entries do not ascend") }
            previous = place
        }
        root.checkWords(ChildValues(order: order, children: children))
        checkSummaries(of: children)
    }

    /// Bytes that the index takes beside the tree, about, with those of the allocator. O(pages).
    package var byteCount: Int { root.byteCount }
}

extension OrderedIndex.Page {
    /// - Returns: How many different depths its pages have: 1, or 0 without entries.
    fileprivate func checkInvariants(isRoot: Bool, isMeasured: Bool) -> Int {
        func depths(_ page: OrderedIndex.Page, isRoot: Bool) -> Set<Int> {
            precondition(page.slotCount <= IndexPage.capacity, "there is a page that is too large")
            switch page {
            case .entries(let entries):
                precondition(isRoot || !entries.isEmpty, "there is an empty page")
                return [0]
            case .refs(let refs):
                precondition(!isRoot || refs.count > 1, "the root has a single ref")
                precondition(!refs.isEmpty, "there is an empty page")
                var all: Set<Int> = []
                for ref in refs {
                    precondition(ref.count == ref.page.count, "a ref's count is wrong")
                    precondition((ref.summary != nil) == isMeasured, "a summary is missing, or not wanted")
                    all.formUnion(depths(ref.page, isRoot: false).map { $0 + 1 })
                }
                return all
            }
        }
        return depths(self, isRoot: isRoot).count
    }

    /// Checks that words are those of the values, and that separators separate.
    fileprivate func checkWords(_ values: ChildValues) {
        switch self {
        case .entries(let entries):
            for entry in entries {
                precondition(OrderWord(values[entry.key]) == entry.word, "a word is wrong")
            }
        case .refs(let refs):
            for (index, ref) in refs.enumerated() {
                ref.page.checkWords(values)
                guard index > 0 else { continue }
                let place = IndexPlace(separator: ref.first)
                precondition(refs[index - 1].page.isBefore(place, values), "a separator is too early")
                precondition(ref.page.isNotBefore(place, values), "a separator is too late")
            }
        }
    }

    private func isBefore(_ place: IndexPlace, _ values: ChildValues) -> Bool {
        switch self {
        case .entries(let entries): entries.allSatisfy { place.compare($0, values) < 0 }
        case .refs(let refs): refs.allSatisfy { $0.page.isBefore(place, values) }
        }
    }

    private func isNotBefore(_ place: IndexPlace, _ values: ChildValues) -> Bool {
        switch self {
        case .entries(let entries): entries.allSatisfy { place.compare($0, values) >= 0 }
        case .refs(let refs): refs.allSatisfy { $0.page.isNotBefore(place, values) }
        }
    }

    fileprivate var byteCount: Int {
        switch self {
        case .entries(let entries): entries.byteCount
        case .refs(let refs):
            refs.reduce(refs.allocatedByteCount) {
                $0 + $1.page.byteCount + ($1.summary?.byteCount ?? 0)
            }
        }
    }
}
