// The differences between two snapshots of one object, found without visiting what they share.
//
//     old   ─ page A ─ page B ─ page C          pages that both have are skipped on each level; of the others, the entries are
//     new   ─ page A ─ page B′ ─ page C         compared by key, whichever page a split or a join has moved them to

/// A child of an object before and after a write; `.empty` where there is none.
package struct ChildChange: Sendable {
    package let key: Key
    package let old: Node
    package let new: Node

    package init(key: Key, old: Node, new: Node) {
        self.key = key
        self.old = old
        self.new = new
    }
}

extension Children {
    /// The children that differ from those of an earlier snapshot, in key order. Among them may be some that
    /// are equal, where they are large: they are not compared to the end.
    /// - Parameters:
    ///   - old: The earlier snapshot.
    ///   - limit: Most entries that are compared.
    /// - Returns: nil when there would be more: then it is cheaper to compare all children.
    /// - Complexity: O(pages that differ × height), however large both are.
    package func differences(from old: Children, atMost limit: Int) -> [ChildChange]? {
        // As many are missing on one side, at least.
        guard abs(count - old.count) <= limit else { return nil }
        var (before, after) = ([old.root], [root])
        var (beforeHeight, afterHeight) = (old.root.height, root.height)
        // First down to the same height, so that pages are compared with pages of their level.
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

    private static func merge(_ old: [Entry], _ new: [Entry]) -> [ChildChange] {
        var changes: [ChildChange] = []
        var left = Node.comparedNodeLimit
        var (i, j) = (0, 0)
        while i < old.count || j < new.count {
            if j == new.count || i < old.count && old[i].key < new[j].key {
                changes.append(ChildChange(key: old[i].key, old: old[i].node, new: .empty))
                i += 1
            } else if i == old.count || new[j].key < old[i].key {
                changes.append(ChildChange(key: new[j].key, old: .empty, new: new[j].node))
                j += 1
            } else {
                if !old[i].node.isEqual(to: new[j].node, visiting: &left) {
                    changes.append(ChildChange(key: old[i].key, old: old[i].node, new: new[j].node))
                }
                i += 1
                j += 1
            }
        }
        return changes
    }
}

extension Children.Page {
    /// Levels below this page; 0 for a page of entries. O(height).
    fileprivate var height: Int {
        if case .refs(let refs) = self { 1 + refs[0].page.height } else { 0 }
    }

    fileprivate var pagesBelow: [Children.Page] {
        if case .refs(let refs) = self { refs.map(\.page) } else { [] }
    }

    fileprivate var ownEntries: [Children.Entry] {
        if case .entries(let entries) = self { Array(entries) } else { [] }
    }

    /// The page's address: a shared page has the same one in both snapshots. Valid while there is a reference
    /// to it.
    private var address: UInt {
        switch self {
        case .entries(let entries):
            unsafe entries.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
        case .refs(let refs): unsafe refs.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
        }
    }

    /// Removes the pages that are in both arrays.
    fileprivate static func removeShared(_ left: inout [Children.Page], _ right: inout [Children.Page]) {
        let (leftAddresses, rightAddresses) = (Set(left.map(\.address)), Set(right.map(\.address)))
        left.removeAll { rightAddresses.contains($0.address) }
        right.removeAll { leftAddresses.contains($0.address) }
    }
}
