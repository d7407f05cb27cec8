// Summaries of numbers in a measured index:
//
//     ref   [ first, count, page, summary ]     of all numbers below: how many, sum, least, greatest
//             └─ page [ (word, key) … ]         no numbers: they are in the object, and looked up page by page
//
// A change of an entry discards the summaries above it. When all changes of a write are done, those are made
// anew: from the numbers of one page of up to 64 children, and from the summaries of up to 64 pages on each
// level above. So an entry takes no more memory, and a summary is always that of the numbers as they are.

extension OrderedIndex {
    /// After the number of a child has changed whose place is the same.
    /// - Parameter value: By what the child is ordered.
    mutating func discardSummaries(above value: Node, _ key: Key) {
        root.discardSummaries(above: IndexPlace(value, .key(key)))
    }

    /// Makes the summaries that are missing. O(log n) for each change since the last call, with a page of
    /// numbers looked up in `children`.
    mutating func repair(in children: Children) {
        guard let measure else { return }
        root.repair(Numbers(measure: measure, children: children))
    }

    /// The numbers of the children with these ranks. O(log n), with up to two pages of numbers looked up in
    /// `children`.
    package func summary(of ranks: Range<Int>, in children: Children) -> NumberSummary {
        var visitCount = 0
        return summary(of: ranks, in: children, counting: &visitCount)
    }

    /// As ``summary(of:in:)``.
    /// - Parameter visitCount: Increased by the numbers and summaries that were added.
    func summary(of ranks: Range<Int>, in children: Children, counting visitCount: inout Int) -> NumberSummary
    {
        var summary = NumberSummary()
        guard let measure else { return summary }
        root.add(ranks, Numbers(measure: measure, children: children), to: &summary, &visitCount)
        return summary
    }

    /// Checks all summaries, for tests. Traps if one is wrong. O(n log n).
    func checkSummaries(of children: Children) {
        guard let measure else { return }
        root.checkSummaries(Numbers(measure: measure, children: children))
    }

    /// The numbers that an index summarises.
    fileprivate struct Numbers {
        let measure: ChildOrder
        let children: Children

        subscript(key: Key) -> Node { measure.number(of: children[key]) }
    }
}

extension OrderedIndex.Page {
    fileprivate typealias Numbers = OrderedIndex.Numbers

    fileprivate mutating func discardSummaries(above place: IndexPlace) {
        // The array is moved out of the enum while it changes, so that there is one reference to it.
        switch exchange(&self, with: .empty) {
        case .entries(let entries): self = .entries(entries)
        case .refs(var refs):
            let index = refs.index(holding: place)
            refs[index].summary = nil
            refs[index].page.discardSummaries(above: place)
            self = .refs(refs)
        }
    }

    fileprivate mutating func repair(_ numbers: Numbers) {
        guard lacksSummary else { return }
        switch exchange(&self, with: .empty) {
        case .entries(let entries): self = .entries(entries)
        case .refs(var refs):
            for index in refs.indices where refs[index].summary == nil {
                refs[index].page.repair(numbers)
                refs[index].summary = PageSummary(refs[index].page.summary(numbers))
            }
            self = .refs(refs)
        }
    }

    private var lacksSummary: Bool {
        if case .refs(let refs) = self { refs.contains { $0.summary == nil } } else { false }
    }

    /// Of this page, all of whose refs have one.
    private func summary(_ numbers: Numbers) -> NumberSummary {
        var summary = NumberSummary()
        switch self {
        case .entries(let entries): for entry in entries { summary.add(numbers[entry.key]) }
        case .refs(let refs): for ref in refs { if let known = ref.summary { summary.add(known.numbers) } }
        }
        return summary
    }

    /// - Parameter ranks: Relative to the first entry of this page; may reach beyond both ends.
    fileprivate func add(
        _ ranks: Range<Int>, _ numbers: Numbers, to summary: inout NumberSummary, _ visitCount: inout Int
    ) {
        switch self {
        case .entries(let entries):
            for index in ranks.clamped(to: 0..<entries.count) {
                summary.add(numbers[entries[index].key])
                visitCount += 1
            }
        case .refs(let refs):
            var first = 0
            for ref in refs {
                if first >= ranks.upperBound { return }
                let end = first &+ ref.count
                if ranks.lowerBound <= first, end <= ranks.upperBound, let known = ref.summary {
                    summary.add(known.numbers)
                    visitCount += 1
                } else if end > ranks.lowerBound {
                    ref.page.add(
                        ranks.lowerBound &- first..<ranks.upperBound &- first, numbers, to: &summary,
                        &visitCount)
                }
                first = end
            }
        }
    }

    fileprivate func checkSummaries(_ numbers: Numbers) {
        guard case .refs(let refs) = self else { return }
        for ref in refs {
            var expected = NumberSummary()
            ref.page.forEachKey { expected.add(numbers[$0]) }
            guard let known = ref.summary?.numbers else { preconditionFailure("a summary is missing") }
            precondition(
                known.count == expected.count && known.sum.value == expected.sum.value, "a sum is wrong")
            precondition(
                known.minimum == expected.minimum && known.maximum == expected.maximum, "an extreme is wrong")
            ref.page.checkSummaries(numbers)
        }
    }

    private func forEachKey(_ body: (Key) -> Void) {
        switch self {
        case .entries(let entries): for entry in entries { body(entry.key) }
        case .refs(let refs): for ref in refs { ref.page.forEachKey(body) }
        }
    }
}
