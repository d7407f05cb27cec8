/// A queue from which an element can be removed wherever it is. Every operation is O(1), amortised over the
/// growth of its storage.
///
///     first ─▶ slot 4 ─▶ slot 0 ─▶ slot 7 ◀─ last          waiting elements, linked in both directions
///     free  ─▶ slot 2 ─▶ slot 5                            slots that are used next
struct LinkedQueue<Element> {
    /// Where an element waits. It holds until the element is taken out or removed.
    struct Place: Equatable {
        fileprivate let slot: Int
    }

    private struct Slot {
        var element: Element?
        /// -1 for none.
        var previous: Int
        /// -1 for none. Of a free slot: the next free one.
        var next: Int
    }

    private var slots: [Slot] = []
    private var firstSlot = -1
    private var lastSlot = -1
    private var freeSlot = -1
    private(set) var count = 0

    /// Slots that an empty queue keeps.
    private static var keptSlotCount: Int { 256 }

    var isEmpty: Bool { count == 0 }

    /// The element that has waited for the longest time; nil for none.
    var first: Element? { isEmpty ? nil : slots[firstSlot].element }

    /// Adds an element as the last one.
    mutating func append(_ element: Element) -> Place {
        let slot = Slot(element: element, previous: lastSlot, next: -1)
        let index: Int
        if freeSlot >= 0 {
            index = freeSlot
            freeSlot = slots[index].next
            slots[index] = slot
        } else {
            index = slots.count
            slots.append(slot)
        }
        if lastSlot >= 0 { slots[lastSlot].next = index } else { firstSlot = index }
        lastSlot = index
        count += 1
        return Place(slot: index)
    }

    /// Takes out the element that has waited for the longest time; nil for none.
    mutating func popFirst() -> Element? {
        guard let element = first else { return nil }
        remove(at: Place(slot: firstSlot))
        return element
    }

    /// Removes an element.
    /// - Precondition: It is there.
    mutating func remove(at place: Place) {
        let index = place.slot
        precondition(slots[index].element != nil, "nothing waits there")
        let (previous, next) = (slots[index].previous, slots[index].next)
        if previous >= 0 { slots[previous].next = next } else { firstSlot = next }
        if next >= 0 { slots[next].previous = previous } else { lastSlot = previous }
        slots[index] = Slot(element: nil, previous: -1, next: freeSlot)
        freeSlot = index
        count -= 1
        guard isEmpty else { return }
        slots.removeAll(keepingCapacity: slots.capacity <= Self.keptSlotCount)
        freeSlot = -1
    }

    /// All elements, the first one first. O(elements); for tests.
    var elements: [Element] {
        var elements: [Element] = []
        var index = firstSlot
        while index >= 0 {
            if let element = slots[index].element { elements.append(element) }
            index = slots[index].next
        }
        return elements
    }
}
