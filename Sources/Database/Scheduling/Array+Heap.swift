extension Array {
    /// Adds an element to a heap: the element that is before all others is the first. O(log n).
    mutating func push(_ element: Element, _ isBefore: (Element, Element) -> Bool) {
        append(element)
        var index = count - 1
        while index > 0, isBefore(self[index], self[(index - 1) / 2]) {
            swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    /// Removes the first element of a heap. O(log n).
    @discardableResult
    mutating func pop(_ isBefore: (Element, Element) -> Bool) -> Element? {
        guard !isEmpty else { return nil }
        swapAt(0, count - 1)
        let first = removeLast()
        var index = 0
        while true {
            var least = index
            for child in 2 * index + 1...2 * index + 2
            where child < count && isBefore(self[child], self[least]) {
                least = child
            }
            guard least != index else { return first }
            swapAt(index, least)
            index = least
        }
    }
}
