/// A bound's key: a key, or one of the two sentinels of the SDKs for before and after all keys (§7.1).
package enum BoundKey: Hashable, Sendable {
    case lowest
    case key(Key)
    case highest

    /// Negative, zero or positive.
    package static func compare(_ left: BoundKey, _ right: BoundKey) -> Int {
        switch (left, right) {
        case (.key(let a), .key(let b)): Key.compare(a, b)
        case (.lowest, .lowest), (.highest, .highest): 0
        case (.lowest, _), (_, .highest): -1
        case (.highest, _), (_, .lowest): 1
        }
    }
}

/// One end of a query's range: a position in the order of (index value, key) pairs.
package struct Bound: Hashable, Sendable {
    /// Nothing, a boolean, number or string; compared as index values are. Not used with the key index.
    package var value: Node
    /// Decides between children with that value.
    package var key: BoundKey
    /// Whether the child exactly at the bound is in the range.
    package var isInclusive: Bool

    package init(value: Node, key: BoundKey, isInclusive: Bool) {
        self.value = value
        self.key = key
        self.isInclusive = isInclusive
    }

    package static func == (left: Bound, right: Bound) -> Bool {
        left.value == right.value && left.key == right.key && left.isInclusive == right.isInclusive
    }

    /// Includes the value: clients listen with as many values as they like (`startAt(now)`), and all that
    /// differ in it alone must not share a hash.
    package func hash(into hasher: inout Hasher) {
        switch value {
        case .boolean(let value): hasher.combine(value)
        case .integer(let value): hasher.combine(value)
        case .double(let value): hasher.combine(value)
        case .string(let value): hasher.combine(value)
        case .empty, .object, .prioritized: break
        }
        hasher.combine(key)
        hasher.combine(isInclusive)
    }
}
