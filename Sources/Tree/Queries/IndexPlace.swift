/// A place in the order of an index (realtime §7.3): that of a child, or of an end of a range.
package struct IndexPlace: Equatable, Sendable {
    let word: OrderWord
    let value: Node
    let key: BoundKey

    /// - Parameter value: By what a child there is ordered; `.empty` with the key index.
    package init(_ value: Node, _ key: BoundKey) {
        word = OrderWord(value)
        self.value = value
        self.key = key
    }

    /// Whether both are the same place: two objects are, under the same key.
    package static func == (left: IndexPlace, right: IndexPlace) -> Bool { compare(left, right) == 0 }

    /// Negative, zero or positive, as `left` is before, at or after `right`. Mostly one comparison of words.
    package static func compare(_ left: IndexPlace, _ right: IndexPlace) -> Int {
        if left.word != right.word { return left.word < right.word ? -1 : 1 }
        if !left.word.isExact {
            let order = Query.compareIndexValues(left.value, right.value)
            if order != 0 { return order }
        }
        return BoundKey.compare(left.key, right.key)
    }
}
