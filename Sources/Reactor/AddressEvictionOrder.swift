/// Of which address one is ended next, where too many are there, by slot: of the one that has most, the slot
/// that has been there longest. So an address that takes many places loses its own, and no other loses one
/// before.
///
///     most 3 ──▶ A ──▶ B              those that have had so many longest, first
///          1 ──▶ C
///                │
///                └──▶ │oldest│ ──▶ … its slots
///
/// Where each address has one, as mostly, they go in the order in which they came. Every call is O(1), except
/// that ``append(_:of:)`` may grow an array.
package struct AddressEvictionOrder {
    /// Neighbours in a list; `end` where there is none.
    private struct Link {
        var next = AddressEvictionOrder.end
        var previous = AddressEvictionOrder.end
    }

    private struct List {
        var first = AddressEvictionOrder.end
        var last = AddressEvictionOrder.end

        /// Appends an element whose link is free.
        mutating func append(_ element: Int32, _ links: inout ContiguousArray<Link>) {
            links[Int(element)] = Link(next: AddressEvictionOrder.end, previous: last)
            if last == AddressEvictionOrder.end { first = element } else { links[Int(last)].next = element }
            last = element
        }

        mutating func remove(_ element: Int32, _ links: inout ContiguousArray<Link>) {
            let link = links[Int(element)]
            if link.previous == AddressEvictionOrder.end {
                first = link.next
            } else {
                links[Int(link.previous)].next = link.next
            }
            if link.next == AddressEvictionOrder.end {
                last = link.previous
            } else {
                links[Int(link.next)].previous = link.previous
            }
            links[Int(element)] = Link()
        }
    }

    /// An address that has slots.
    private struct Owner {
        let network: AddressNetwork?
        var slots = List()
        var count = 0
    }

    private static let end: Int32 = -1

    /// By slot: its neighbours, and the place of its owner in `owners`; `end` for a slot that is not there.
    private var slotLinks: ContiguousArray<Link> = []
    private var slotOwners: ContiguousArray<Int32> = []
    /// By place. The places of `freePlaces` have no slots.
    private var owners: ContiguousArray<Owner> = []
    private var ownerLinks: ContiguousArray<Link> = []
    private var freePlaces: [Int32] = []
    private var places: [AddressNetwork?: Int32] = [:]
    /// By the number of their slots, from 1 on: owners that have so many. The last list is not empty.
    private var lists: ContiguousArray<List> = []
    /// Slots that are there.
    package private(set) var count = 0

    package init() {}

    /// The slot to end first; nil when there is none.
    package var first: Int? {
        lists.last.map { Int(owners[Int($0.first)].slots.first) }
    }

    /// Appends a slot, which moves behind all others of its address if it is there already.
    /// - Parameter network: nil where the address is not known: all such are one.
    package mutating func append(_ slot: Int, of network: AddressNetwork?) {
        while slotLinks.count <= slot {
            slotLinks.append(Link())
            slotOwners.append(Self.end)
        }
        remove(slot)
        let place = place(of: network)
        slotOwners[slot] = place
        count += 1
        owners[Int(place)].slots.append(Int32(slot), &slotLinks)
        move(place, by: 1)
    }

    /// Removes a slot, if it is there.
    package mutating func remove(_ slot: Int) {
        guard slot < slotOwners.count, slotOwners[slot] != Self.end else { return }
        let place = slotOwners[slot]
        slotOwners[slot] = Self.end
        count -= 1
        owners[Int(place)].slots.remove(Int32(slot), &slotLinks)
        move(place, by: -1)
        guard owners[Int(place)].count == 0 else { return }
        places[owners[Int(place)].network] = nil
        freePlaces.append(place)
    }

    private mutating func place(of network: AddressNetwork?) -> Int32 {
        if let place = places[network] { return place }
        let owner = Owner(network: network)
        let place: Int32
        if let free = freePlaces.popLast() {
            place = free
            owners[Int(place)] = owner
        } else {
            place = Int32(owners.count)
            owners.append(owner)
            ownerLinks.append(Link())
        }
        places[network] = place
        return place
    }

    /// Moves an owner to the end of the list for one slot more or less.
    private mutating func move(_ place: Int32, by change: Int) {
        let old = owners[Int(place)].count
        let new = old + change
        owners[Int(place)].count = new
        if old > 0 { lists[old - 1].remove(place, &ownerLinks) }
        if new > lists.count { lists.append(List()) }
        if new > 0 { lists[new - 1].append(place, &ownerLinks) }
        if lists.last?.first == Self.end { lists.removeLast() }
    }

    /// Checks all invariants, for tests. Traps if one is violated. O(slots).
    func checkInvariants() {
        precondition(lists.last?.first != Self.end, "the last list is empty")
        var (slotCount, ownerCount) = (0, 0)
        for (index, list) in lists.enumerated() {
            var (place, previous) = (list.first, Self.end)
            while place != Self.end {
                precondition(ownerLinks[Int(place)].previous == previous, "the links of owners disagree")
                let owner = owners[Int(place)]
                precondition(owner.count == index + 1, "an owner is in another list than its count says")
                precondition(places[owner.network] == place, "an owner is not found")
                var (slot, before, found) = (owner.slots.first, Self.end, 0)
                while slot != Self.end {
                    precondition(slotLinks[Int(slot)].previous == before, "the links of slots disagree")
                    precondition(slotOwners[Int(slot)] == place, "a slot is with another owner")
                    (before, slot, found) = (slot, slotLinks[Int(slot)].next, found + 1)
                }
                precondition(owner.slots.last == before && found == owner.count, "an owner's slots are wrong")
                slotCount += found
                ownerCount += 1
                (previous, place) = (place, ownerLinks[Int(place)].next)
            }
            precondition(list.last == previous, "a list's last owner is wrong")
        }
        precondition(slotCount == count, "the count is wrong")
        precondition(ownerCount == places.count, "an owner is in no list")
        precondition(ownerCount + freePlaces.count == owners.count, "a place is lost")
    }
}
