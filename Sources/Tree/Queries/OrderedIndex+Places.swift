// Where entries and pages of an index lie in its order.

extension IndexPlace {
    /// Where a page of an index begins.
    init(separator: OrderedIndex.Separator) {
        word = separator.word
        value = separator.value
        key = .key(separator.key)
    }

    /// Negative, zero or positive, as the entry is before, at or after this place.
    func compare(_ entry: IndexEntry, _ values: ChildValues) -> Int {
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
