import PandoRules
import PandoTree

// How indexes come into force, and how they are dropped.

extension IndexCatalog {
    // MARK: Becoming ready

    /// Whether the index with this number is waited for. O(depth).
    func isAwaited(_ number: Int, at path: Path) -> Bool {
        location(at: path)?.slots.contains { $0.number == number && $0.index == nil } ?? false
    }

    /// Puts a built index in force.
    /// - Parameter byteCount: That it takes.
    func put(_ index: KeptIndex, byteCount: Int, number: Int, at path: Path) {
        guard let location = location(at: path),
            let slot = location.slots.firstIndex(where: { $0.number == number })
        else { return }
        location.slots[slot].index = index
        readyCount += 1
        charge(&location.slots[slot], counted: byteCount)
        evictBeyondLimit(butNot: number)
    }

    // MARK: Dropping

    /// Drops the indexes that this is true of, and locations that have none left. O(locations).
    func drop(where isDropped: (Location, Slot) -> Bool) {
        func visit(_ location: Location) {
            for child in location.children.values { visit(child) }
            for index in location.slots.indices.reversed() where isDropped(location, location.slots[index]) {
                drop(index, of: location)
            }
            for (key, child) in location.children where child.slots.isEmpty && child.children.isEmpty {
                location.children[key] = nil
                locationCount -= 1
            }
        }
        visit(root)
    }

    /// Drops the indexes of a location with few children. O(depth).
    func dropAll(at path: Path) {
        var ancestors = [root]
        for key in path.keys {
            guard let next = ancestors[ancestors.count - 1].children[key] else { return }
            ancestors.append(next)
        }
        let location = ancestors[ancestors.count - 1]
        for index in location.slots.indices.reversed() { drop(index, of: location) }
        while ancestors.count > 1, let last = ancestors.popLast(), last.slots.isEmpty, last.children.isEmpty {
            ancestors[ancestors.count - 1].children[path[ancestors.count - 1]] = nil
            locationCount -= 1
        }
    }

    /// Drops an index. The location stays in the trie.
    func drop(_ index: Int, of location: Location) {
        var slot = location.slots.remove(at: index)
        charge(&slot, 0)
        count(slot, -1)
        guard let kept = slot.index else { return work.builds.removeAll { $0.number == slot.number } }
        readyCount -= 1
        work.dropped.append(kept)
    }

    /// Puts an index that was made elsewhere in force, in place of the one of a slot, or before that is built. O(pages).
    func put(_ kept: KeptIndex, _ index: Int, of location: Location) {
        if let old = location.slots[index].index {
            work.dropped.append(old)
        } else {
            readyCount += 1
            work.builds.removeAll { [number = location.slots[index].number] in $0.number == number }
        }
        location.slots[index].index = kept
        charge(&location.slots[index], counted: kept.byteCount)
    }

    /// Takes an index that was built for a listen, over a snapshot, unless there is one that is ready.
    /// - Parameters:
    ///   - old: The snapshot.
    ///   - new: The location's data now.
    /// - Complexity: O(changes since the snapshot × log n + pages), bounded.
    func adopt(_ kept: KeptIndex, at path: Path, over old: Node, now new: Node, time: Int64) {
        noteUse(of: kept.order, at: path, over: new, isLasting: true, at: time)
        guard let location = location(at: path),
            let index = location.slots.firstIndex(where: { $0.order == kept.order && $0.measure == nil }),
            location.slots[index].index == nil,
            let current = kept.following(old, to: new, atMost: Self.adoptedDifferenceLimit)
        else { return }
        let number = location.slots[index].number
        put(current, index, of: location)
        evictBeyondLimit(butNot: number)
    }

    private static let adoptedDifferenceLimit = 4096

    /// Has the index of a slot built anew.
    func rebuild(_ index: Int, of location: Location) {
        if let kept = location.slots[index].index {
            readyCount -= 1
            work.dropped.append(kept)
        }
        location.slots[index].index = nil
        work.builds.append(IndexWork.Build(location.slots[index], at: location.path))
    }

    /// Drops indexes on demand, the one that was not used for the longest time first, until the others take no more
    /// than they may.
    /// - Parameter number: One that stays; nil for none.
    /// - Complexity: O(1) within the limit; O(locations) for each one that is dropped.
    func evictBeyondLimit(butNot number: Int? = nil) {
        while onDemandByteCount > onDemandByteLimit, let oldest = leastRecentlyUsed(butNot: number) {
            drop { $1.number == oldest.number }
        }
    }

    /// The index on demand that was not used for the longest time: its number, and when it was used. O(locations).
    func leastRecentlyUsed(butNot number: Int? = nil) -> (number: Int, lastUse: Int64)? {
        var oldest: Slot?
        func visit(_ location: Location) {
            for slot in location.slots where !slot.isDeclared && slot.number != number {
                if let oldest, (oldest.lastUse, oldest.number) < (slot.lastUse, slot.number) { continue }
                oldest = slot
            }
            for child in location.children.values { visit(child) }
        }
        visit(root)
        return oldest.map { ($0.number, $0.lastUse) }
    }

    // MARK: Invariants

    /// Checks all invariants, for tests. Traps if one is violated. O(children of all locations here).
    func checkInvariants(of tree: Node) {
        var (ready, locations, charged, declared, onDemand) = (0, 0, 0, 0, 0)
        func visit(_ location: Location) {
            precondition(
                location === root || !location.slots.isEmpty || !location.children.isEmpty,
                "an empty location is left at \(location.path)")
            precondition(!location.isTouched && touched.isEmpty, "the state of a write is left")
            precondition(
                Set(location.slots.map { [$0.order, $0.measure] }).count == location.slots.count,
                "two indexes of one order")
            let children = tree[location.path].children
            for slot in location.slots {
                precondition(slot.olds.isEmpty, "the state of a write is left")
                precondition(!slot.isDeclared || slot.chargedByteCount == 0)
                if slot.isDeclared { declared += 1 } else { onDemand += 1 }
                charged += slot.chargedByteCount
                guard let index = slot.index else { continue }
                precondition(
                    slot.isDeclared || slot.chargedByteCount >= index.byteCount + slot.overheadByteCount,
                    "an index takes more bytes than it counts for")
                ready += 1
                index.checkInvariants(of: children)
            }
            for child in location.children.values {
                locations += 1
                visit(child)
            }
        }
        visit(root)
        precondition(
            ready == readyCount && locations == locationCount && charged == onDemandByteCount
                && declared == declaredCount && onDemand == onDemandCount, "miscounted")
        precondition(
            onDemand <= Self.onDemandLimit && declared <= Self.declaredLimit, "there are too many indexes")
        precondition(
            work.builds.allSatisfy { isAwaited($0.number, at: $0.path) },
            "an index is to be built for nothing")
    }

    // MARK: Rules

    /// Follows new rules: drops what they do not declare any more, and has the rest looked for.
    func declare(_ declarations: IndexDeclarations?) {
        guard self.declarations != nil || declarations != nil else { return }
        self.declarations = declarations
        drop { location, slot in
            slot.isDeclared && !(declarations?[location.path]?.orders.contains(slot.order) ?? false)
        }
        work.discoveries = declarations == nil ? [] : [.root]
    }
}
