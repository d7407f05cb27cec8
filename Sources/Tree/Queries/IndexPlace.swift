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

    /// Where a page of an index begins.
    init(separator: OrderedIndex.Separator) {
        word = separator.word
        value = separator.value
        key = .key(separator.key)
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

    /// Negative, zero or positive, as the entry is before, at or after this place.
    func compare(_ entry: OrderedIndex.Entry, _ values: ChildValues) -> Int {
        if entry.word != word { return entry.word < word ? -1 : 1 }
        if !word.isExact {
            let order = Query.compareIndexValues(values[entry.key], value)
            if order != 0 { return order }
        }
        return BoundKey.compare(.key(entry.key), key)
    }

    /// As ``compare(_:_:)``, of what a page begins with. Nothing is looked up.
    func compare(_ separator: OrderedIndex.Separator) -> Int {
        if separator.word != word { return separator.word < word ? -1 : 1 }
        if !word.isExact {
            let order = Query.compareIndexValues(separator.value, value)
            if order != 0 { return order }
        }
        return BoundKey.compare(.key(separator.key), key)
    }
}
