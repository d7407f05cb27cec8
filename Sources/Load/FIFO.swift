/// A queue in a ring: both ends are O(1), and its memory is used again.
struct FIFO<Element> {
    private var items: [Element?] = []
    private var head = 0
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    var first: Element? { isEmpty ? nil : items[head] }

    mutating func append(_ element: Element) {
        if count == items.count { grow() }
        items[(head + count) % items.count] = element
        count += 1
    }

    mutating func popFirst() -> Element? {
        guard count > 0 else { return nil }
        let element = items[head]
        items[head] = nil
        head = (head + 1) % items.count
        count -= 1
        return element
    }

    mutating func removeAll() { self = FIFO() }

    private mutating func grow() {
        var larger: [Element?] = []
        larger.reserveCapacity(max(4, items.count * 2))
        for index in 0..<count { larger.append(items[(head + index) % items.count]) }
        while larger.count < max(4, items.count * 2) { larger.append(nil) }
        items = larger
        head = 0
    }
}
