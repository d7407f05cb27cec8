import PandoRules
import PandoTree

// How indexes come into force, and how they are dropped.

extension IndexCatalog {
    // MARK: Becoming ready

    /// Whether the index with this number is waited for. O(depth).
    func isAwaited(_ number: Int, at path: Path) -> Bool {
        locations[path]?.slots.contains { $0.number == number && $0.index == nil } ?? false
    }

    /// Puts a built index in force.
    /// - Parameter byteCount: That it takes.
    func put(_ index: KeptIndex, byteCount: Int, number: Int, at path: Path) {
        guard let location = locations[path],
            let slot = location.slots.firstIndex(where: { $0.number == number })
        else { return }
        location.slots[slot].index = index
        readyCount += 1
        // It may have been asked for once more while it was being built.
        work.builds.removeAll { $0.number == number }
        accounts.charge(&location.slots[slot], counted: byteCount)
        evictBeyondLimit(butNot: number)
    }

    // MARK: Dropping

    /// Drops the indexes that this is true of, and locations that have none left. O(locations).
    func drop(where isDropped: (IndexLocation, IndexSlot) -> Bool) {
        locations.forEach { location in
            for index in location.slots.indices.reversed() where isDropped(location, location.slots[index]) {
                drop(index, of: location)
            }
        }
        locations.removeEmpty()
    }

    /// Drops the indexes of a location with few children. O(depth).
    func dropAll(at path: Path) {
        guard let location = locations[path] else { return }
        for index in location.slots.indices.reversed() { drop(index, of: location) }
        locations.removeEmpty(onTheWayTo: path)
    }

    /// Drops an index. The location stays in the trie.
    func drop(_ index: Int, of location: IndexLocation) {
        let slot = location.slots.remove(at: index)
        accounts.remove(slot)
        guard let kept = slot.index else { return work.builds.removeAll { $0.number == slot.number } }
        readyCount -= 1
        work.dropped.append(kept)
    }

    /// Puts an index that was made elsewhere in force, in place of the one of a slot, or before that is
    /// built. O(pages).
    func put(_ kept: KeptIndex, _ index: Int, of location: IndexLocation) {
        if let old = location.slots[index].index {
            work.dropped.append(old)
        } else {
            readyCount += 1
            work.builds.removeAll { [number = location.slots[index].number] in $0.number == number }
        }
        location.slots[index].index = kept
        accounts.charge(&location.slots[index], counted: kept.byteCount)
    }

    /// Takes an index that was built for a listen, over a snapshot, unless there is one that is ready.
    /// - Parameters:
    ///   - old: The snapshot.
    ///   - new: The location's data now.
    /// - Complexity: O(changes since the snapshot × log n + pages), bounded.
    func adopt(_ kept: KeptIndex, at path: Path, over old: Node, now new: Node, time: Int64) {
        noteUse(of: kept.order, at: path, over: new, isLasting: true, at: time)
        guard let location = locations[path],
            let index = location.slot(kept.order, measuring: nil),
            location.slots[index].index == nil,
            let current = kept.following(old, to: new, atMost: Self.adoptedDifferenceLimit)
        else { return }
        let number = location.slots[index].number
        put(current, index, of: location)
        evictBeyondLimit(butNot: number)
    }

    private static let adoptedDifferenceLimit = 4096

    /// Has the index of a slot built anew.
    func rebuild(_ index: Int, of location: IndexLocation) {
        if let kept = location.slots[index].index {
            readyCount -= 1
            work.dropped.append(kept)
        }
        location.slots[index].index = nil
        work.builds.append(IndexWork.Build(location.slots[index], at: location.path))
    }

    /// Drops indexes on demand, the one that was not used for the longest time first, until the others take
    /// no more than they may.
    /// - Parameter number: One that stays; nil for none.
    /// - Complexity: O(1) within the limit; O(locations) for each one that is dropped.
    func evictBeyondLimit(butNot number: Int? = nil) {
        while accounts.isBeyondLimit, let oldest = locations.leastRecentlyUsed(butNot: number) {
            drop { $1.number == oldest.number }
        }
    }

    // MARK: Invariants

    /// Checks all invariants, for tests. Traps if one is violated. O(children of all locations here).
    func checkInvariants(of tree: Node) {
        var (ready, below, charged, declared, onDemand) = (0, -1, 0, 0, 0)
        locations.forEach { location in
            below += 1
            precondition(
                below == 0 || !location.isEmpty, "an empty location is left at \(location.path)")
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
        }
        precondition(ready == readyCount && below == locations.count, "miscounted")
        precondition(
            charged == accounts.onDemandByteCount && declared == accounts.declaredCount
                && onDemand == accounts.onDemandCount, "miscounted")
        precondition(
            onDemand <= IndexAccounts.onDemandLimit && declared <= IndexAccounts.declaredLimit,
            "there are too many indexes")
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
