import PandoBytes

/// The first 64 bits of the order of index values (realtime §7.3): of two values with different words the one
/// with the lesser word comes first.
///
///     ┌ 3 bits ┬──────────────────────── 60 bits ───────────────────────┬ 1 bit ┐
///     │ type   │ boolean   0 or 1                                       │ 1 if  │
///     │        │ number    the first 60 bits of its double, made ordered │ there │
///     │        │ string    7 bytes, made ordered │ 4 bits: its length    │ are   │
///     │        │ others    0                                            │ more  │
///     └────────┴────────────────────────────────────────────────────────┴───────┘
///
/// Types: 0 nothing, 1 boolean, 2 number, 3 string, 4 object. Exact are all integers up to 2^49 and all
/// strings of up to seven bytes. For a value that is not exact, the last bit places it behind the exact value
/// with the same bits.
struct OrderWord: Comparable {
    let bits: UInt64

    /// Of nothing.
    static let nothing = OrderWord(bits: 0)

    /// - Parameter value: An index value; a priority of it is ignored. O(1).
    init(_ value: Node) {
        switch value {
        case .empty: self = .nothing
        case .boolean(let value): self.init(type: 1, value ? 1 : 0, isExact: true)
        case .integer(let value): self.init(number: Double(value))
        case .double(let value): self.init(number: value)
        case .string(let text): self.init(text)
        case .object: self.init(type: 4, 0, isExact: true)
        case .prioritized(let box): self.init(box.node)
        }
    }

    /// - Parameter bits: Of another word.
    init(bits: UInt64) { self.bits = bits }

    private init(type: UInt64, _ payload: UInt64, isExact: Bool) {
        bits = type << 61 | payload << 1 | (isExact ? 0 : 1)
    }

    private init(number: Double) {
        // As a number, the bits of a positive double ascend with it, and those of a negative one descend.
        // Zero, whatever its sign, is in the middle.
        let magnitude = number.bitPattern & (1 << 63 - 1)
        let ordered = number.sign == .minus ? 1 << 63 - magnitude : 1 << 63 + magnitude
        self.init(type: 2, ordered >> 4, isExact: ordered & 15 == 0)
    }

    private init(_ text: Text) {
        let (head, count) = text.withBytes { bytes in
            (Key.ordered(Key.words(of: bytes.extracting(first: 8)).head), bytes.count)
        }
        // Behind the bytes the length: a text comes before those that it is a beginning of, also if only zero
        // bytes follow.
        self.init(type: 3, (head >> 8) << 4 | UInt64(min(count, 8)), isExact: count < 8)
    }

    /// Whether all values with this word are equal in the order.
    var isExact: Bool { bits & 1 == 0 }

    static func < (left: OrderWord, right: OrderWord) -> Bool { left.bits < right.bits }
}
