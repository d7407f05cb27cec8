import PandoRules
import PandoTree

// How indexes follow writes, in the same commit:
//
//     capture   before a change, at each location on the way to it: the old value of the child that it is in
//     follow    after all changes: the children's entries are moved
//     replace   after a change at a location or above it: its children are compared, or its indexes built anew

extension IndexCatalog {
    /// Before a change: notes the values that it may change. Does nothing while no index is ready.
    /// - Complexity: O(depth × log n), and for each index on the way O(depth of its order × log n).
    func capture(_ path: Path, in tree: Node) {
        guard readyCount > 0 else { return }
        var location = locations.root
        var value = tree
        // A priority changes its node, in the eyes of the index above.
        for key in path.keys where key != Path.priorityKey {
            let child = value[key]
            if !location.slots.isEmpty { capture(key, child, of: location) }
            guard let next = location.children[key] else { return }
            location = next
            value = child
        }
    }

    private func capture(_ key: Key, _ child: Node, of location: IndexLocation) {
        for index in location.slots.indices where location.slots[index].index != nil {
            // A merge often names one child several times in a row.
            guard location.slots[index].olds.last?.key != key else { continue }
            let value = location.slots[index].order.placedValue(of: child)
            let number = location.slots[index].measure?.number(of: child) ?? .empty
            location.slots[index].olds.append((key, value, number))
        }
        if !location.isTouched {
            location.isTouched = true
            touched.append(location)
        }
    }

    /// After the changes that were captured: updates the indexes of locations above them.
    /// - Parameter tree: The tree after the write.
    /// - Complexity: O(changes × log n) for each index.
    func follow(in tree: Node) {
        guard !touched.isEmpty else { return }
        for location in touched {
            location.isTouched = false
            let children = tree[location.path].children
            for index in location.slots.indices where !location.slots[index].olds.isEmpty {
                if !update(&location.slots[index], children) { rebuild(index, of: location) }
                location.slots[index].olds.removeAll(keepingCapacity: location.slots[index].olds.count < 64)
            }
            if children.count < minimumChildCountToKeep { dropAll(at: location.path) }
        }
        touched.removeAll(keepingCapacity: true)
    }

    /// - Returns: false where the index must be built anew.
    private func update(_ slot: inout IndexSlot, _ children: Children) -> Bool {
        // Moved out, so that there is one reference to its pages.
        guard var index = slot.index.take() else { return true }
        readyCount -= 1
        let isRight: Bool
        let changeCount = slot.olds.count
        if slot.olds.count == 1 {
            let change = slot.change(slot.olds[0], children)
            guard change.movesChild || change.changesNumber else {
                slot.index = index
                readyCount += 1
                return true
            }
            isRight = index.update(CollectionOfOne(change), in: children)
        } else {
            var seen: Set<Key> = []
            var changes: [KeptIndex.ValueChange] = []
            for old in slot.olds where seen.insert(old.key).inserted {
                changes.append(slot.change(old, children))
            }
            isRight = index.update(changes, in: children)
        }
        accounts.recharge(&slot, index, changeCount: changeCount)
        slot.index = index
        readyCount += 1
        return isRight
    }

    /// Most children that are compared when a location is replaced. With more the index is built anew.
    private static let replacedChildLimit = 4096

    /// After a change: updates the indexes at its path and below, whose nodes were replaced.
    /// - Complexity: O(locations with indexes there × their children, up to a limit).
    func replace(at path: Path, _ old: Node, with new: Node) {
        guard hasIndexes, !path.namesPriority, let location = locations[path] else { return }
        var left = Self.replacedChildLimit
        var small: [Path] = []
        replace(location, old, with: new, &left, &small)
        for path in small { dropAll(at: path) }
    }

    /// Recursion no deeper than ``Limits/pathDepth``.
    /// - Parameters:
    ///   - left: Children that may still be compared.
    ///   - small: Gets the locations that have few children now.
    private func replace(
        _ location: IndexLocation, _ old: Node, with new: Node, _ left: inout Int, _ small: inout [Path]
    ) {
        let (before, after) = (old.children, new.children)
        if !location.slots.isEmpty, after.count < minimumChildCountToKeep { small.append(location.path) }
        for index in location.slots.indices {
            let order = location.slots[index].order
            if !prepared.isEmpty, location.slots[index].measure == nil,
                let kept = preparedIndex(order, at: location.path, over: new)
            {
                put(kept, index, of: location)
                continue
            }
            guard location.slots[index].index != nil else { continue }
            guard left > 0, let changes = after.differences(from: before, atMost: left) else {
                rebuild(index, of: location)
                continue
            }
            left -= changes.count
            let measure = location.slots[index].measure
            location.slots[index].olds = changes.map {
                ($0.key, order.placedValue(of: $0.old), measure?.number(of: $0.old) ?? .empty)
            }
            if !changes.isEmpty, !update(&location.slots[index], after) { rebuild(index, of: location) }
            location.slots[index].olds = []
        }
        for (key, child) in location.children { replace(child, old[key], with: new[key], &left, &small) }
    }
}

// MARK: - New locations

extension IndexCatalog {
    /// Has indexes built that the rules declare, where a write has made a location large. Looks at large
    /// values, and at one in some of the other writes: a location grows by many.
    /// - Parameter tree: The tree after the write.
    func noteGrowth(by path: Path, _ node: Node, in tree: Node) {
        guard let declarations else { return }
        writeCount &+= 1
        if writeCount & Self.growthCheckMask == 0 { requestDeclared(above: path, declarations, tree) }
        guard case .object = node.withoutPriority, declarations[path] != nil,
            node.isHeavier(than: Self.largeByteCount)
        else { return }
        work.discover(below: path)
    }

    /// A value that prints to more bytes may have locations with many children.
    private static let largeByteCount = 4 << 10

    private func requestDeclared(above path: Path, _ declarations: IndexDeclarations, _ tree: Node) {
        var (declarations, value) = (declarations, tree)
        for (depth, key) in path.keys.enumerated() where key != Path.priorityKey {
            if !declarations.orders.isEmpty, value.children.count > unindexedChildCount {
                let path = Path(Array(path.keys[..<depth]))
                requestDeclared(declarations.orders, at: path, childCount: value.children.count)
            }
            guard let next = declarations[key] else { return }
            declarations = next
            value = value[key]
        }
    }

    /// Has declared indexes of a location built that it does not have.
    func requestDeclared(_ orders: Set<ChildOrder>, at path: Path, childCount: Int) {
        // The order of a hash table differs from process to process.
        let orders = orders.sorted { ($0.declaredName ?? "") < ($1.declaredName ?? "") }
        for order in orders where declarations?[path]?.orders.contains(order) ?? false {
            request(order, at: path, childCount: childCount, isDeclared: true, at: 0)
        }
    }
}

extension IndexSlot {
    /// What a write has done to a captured child.
    fileprivate func change(
        _ old: (key: Key, value: Node?, number: Node), _ children: Children
    ) -> KeptIndex.ValueChange {
        let child = children[old.key]
        return KeptIndex.ValueChange(
            key: old.key, old: old.value, new: order.placedValue(of: child), oldNumber: old.number,
            newNumber: measure?.number(of: child) ?? .empty)
    }
}

extension ChildOrder {
    /// The value by which a child is ordered, as an index holds it while the child changes: objects, which
    /// are all in the same place, are replaced by one, so that a write need not copy their pages. Nil for no
    /// child.
    func placedValue(of child: Node) -> Node? {
        if child.isEmpty { return nil }
        let value = value(of: child)
        if case .object = value { return Self.object }
        return value
    }

    private static let object = Node.object(Children(ascending: [.init(key: "0", node: .boolean(true))]))
}
