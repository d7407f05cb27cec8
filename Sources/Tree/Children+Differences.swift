// What has changed between two snapshots of one object, found without looking at what they share.
//
//     old   ─ page A ─ page B ─ page C          pages that both hold are passed over on each level; of the others the
//     new   ─ page A ─ page B′ ─ page C         entries are compared by key, wherever a split or a join has put them

extension Children {
    /// A child that two snapshots do not have alike; `.empty` where one has none.
    package struct Difference: Sendable {
        package let key: Key
        package let old: Node
        package let new: Node
    }

    /// The children that differ from those of an earlier snapshot, in key order.
    /// - Parameter limit: Entries that are compared at most.
    /// - Returns: Nil when there would be more: then it is cheaper to look at all children.
    /// - Complexity: O(pages that differ × height), however large both are.
    package func differences(from old: Children, atMost limit: Int) -> [Difference]? {
        var (before, after) = ([old.root], [root])
        var (beforeHeight, afterHeight) = (old.root.height, root.height)
        // The higher one first, so that pages are compared with pages of their level.
        while beforeHeight > afterHeight {
            before = before.flatMap(\.pagesBelow)
            beforeHeight -= 1
        }
        while afterHeight > beforeHeight {
            after = after.flatMap(\.pagesBelow)
            afterHeight -= 1
        }
        while true {
            Page.removeShared(&before, &after)
            guard (before.count + after.count) * Self.pageCapacity <= limit else { return nil }
            guard beforeHeight > 0 else { break }
            before = before.flatMap(\.pagesBelow)
            after = after.flatMap(\.pagesBelow)
            beforeHeight -= 1
        }
        return Self.merge(before.flatMap(\.ownEntries), after.flatMap(\.ownEntries))
    }

    private static func merge(_ old: [Entry], _ new: [Entry]) -> [Difference] {
        var differences: [Difference] = []
        var (i, j) = (0, 0)
        while i < old.count || j < new.count {
            if j == new.count || i < old.count && old[i].key < new[j].key {
                differences.append(Difference(key: old[i].key, old: old[i].node, new: .empty))
                i += 1
            } else if i == old.count || new[j].key < old[i].key {
                differences.append(Difference(key: new[j].key, old: .empty, new: new[j].node))
                j += 1
            } else {
                if old[i].node != new[j].node {
                    differences.append(Difference(key: old[i].key, old: old[i].node, new: new[j].node))
                }
                i += 1
                j += 1
            }
        }
        return differences
    }
}

extension Children.Page {
    /// Levels below this page; 0 for one of entries. O(height).
    fileprivate var height: Int {
        if case .limbs(let limbs) = self { 1 + limbs[0].page.height } else { 0 }
    }

    fileprivate var pagesBelow: [Children.Page] {
        if case .limbs(let limbs) = self { limbs.map(\.page) } else { [] }
    }

    fileprivate var ownEntries: [Children.Entry] {
        if case .entries(let entries) = self { Array(entries) } else { [] }
    }

    /// Where the page is in memory: pages that are one are the same. Valid while somebody holds it.
    private var address: UInt {
        switch self {
        case .entries(let entries):
            unsafe entries.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
        case .limbs(let limbs): unsafe limbs.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
        }
    }

    /// Takes out of both what both hold.
    fileprivate static func removeShared(_ left: inout [Children.Page], _ right: inout [Children.Page]) {
        let (leftAddresses, rightAddresses) = (Set(left.map(\.address)), Set(right.map(\.address)))
        left.removeAll { rightAddresses.contains($0.address) }
        right.removeAll { leftAddresses.contains($0.address) }
    }
}
