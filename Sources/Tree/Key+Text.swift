import PandoBytes

// From bytes to keys; the way back is in Key+Bytes.swift.

extension Key {
    /// Trusts the caller that the text is a legal key; use ``init(validating:)`` for what comes from outside.
    /// Any text will do for comparisons.
    package init(unchecked text: Text) {
        self = text.withBytes { Key(utf8: $0) }
    }

    /// As ``init(unchecked:)-(Text)``, without a text in between. Bytes that are no UTF-8 are repaired as
    /// `String` does it.
    package init(unchecked bytes: Span<UInt8>) {
        if let usual = Key(usual: bytes, isLegal: false) { self = usual } else { self.init(any: bytes) }
    }

    /// The same; nil when it is no legal key (§8.6).
    package init?(legal bytes: Span<UInt8>) {
        if let usual = Key(usual: bytes, isLegal: true) {
            self = usual
        } else {
            guard Key.isLegal(bytes) else { return nil }
            self.init(any: bytes)
        }
    }

    /// A short text, push id or integer of legal ASCII: most keys, in a few steps.
    /// - Parameter isLegal: Nil also when a short text is no legal key.
    @inline(__always)
    private init?(usual bytes: Span<UInt8>, isLegal: Bool) {
        let count = bytes.count
        guard count > 0 else { return nil }
        if Key.mayBeInteger(bytes) {
            // What digits make is legal but for its length.
            guard count <= Key.shortByteCount else { return nil }
            self.init(integer: bytes)
            return
        }
        if count == sixBitTextCount {
            self.init(packing: bytes)
            return
        }
        guard count <= Key.shortByteCount, bytes[count &- 1] != 0 else { return nil }
        let (head, rest) = Key.words(of: bytes)
        guard (head | rest) & everyByte(0x80) == 0 else { return nil }
        if isLegal {
            // Spaces, which are legal, take the place of the zeros behind the end.
            let spaces = everyByte(0x20)
            guard !Key.holdsForbidden(head | spaces >> UInt64(8 &* count)) else { return nil }
            if count > 8, Key.holdsForbidden(rest | spaces >> UInt64(8 &* (count &- 8))) { return nil }
        }
        self.init(head: head, tail: Kind.short | rest >> 8)
    }

    @inline(never)
    private init(any bytes: Span<UInt8>) {
        self = Key.isUTF8(bytes) ? Key(utf8: bytes) : Key(repairing: bytes)
    }

    /// A key of 1…15 bytes of legal ASCII, the first one lowest, and anything behind them; nil where it is
    /// another kind of key, or may be an integer.
    package init?(plain first: UInt64, _ second: UInt64, byteCount: Int) {
        // Integers begin with `-` or a digit.
        guard byteCount > 0, byteCount <= Key.shortByteCount, first & 0xFF > 0x39 else { return nil }
        let bits = UInt64(truncatingIfNeeded: 8 &* byteCount)
        if bits <= 64 {
            // What is shifted by 64 is gone.
            self.init(head: (first & ~(.max << bits)).byteSwapped, tail: Kind.short)
        } else {
            self.init(
                head: first.byteSwapped,
                tail: Kind.short | (second & ~(.max << (bits &- 64))).byteSwapped >> 8)
        }
    }

    /// - Throws: ``InvalidData/key(_:)`` for an empty or overlong key, a control character (U+0000–U+001F,
    ///   U+007F) or one of `.` `$` `#` `[` `]` `/` (§8.6).
    package init(validating text: Text) throws(InvalidData) {
        guard Key.isLegal(text) else { throw .key(String(text.string.prefix(64))) }
        self.init(unchecked: text)
    }

    /// The key of an array's element.
    package init(index: Int) {
        guard (0...2_147_483_647).contains(index) else {
            self.init(unchecked: Text(String(index)))
            return
        }
        var count: UInt64 = 1
        var rest = index
        while rest >= 10 {
            rest /= 10
            count &+= 1
        }
        self.init(head: UInt64(index) &+ 0x8000_0000, tail: count << 1 | 1)
    }

    /// - Parameter bytes: UTF-8.
    init(utf8 bytes: Span<UInt8>) {
        let count = bytes.count
        if Key.mayBeInteger(bytes), let integer = Key(integer: bytes) {
            self = integer
        } else if count <= Key.shortByteCount, count == 0 || bytes[count &- 1] != 0 {
            let (head, rest) = Key.words(of: bytes)
            self.init(head: Key.ordered(head), tail: Kind.short | Key.ordered(rest) >> 8)
        } else if count == sixBitTextCount, let packed = Key(packing: bytes) {
            self = packed
        } else {
            self = Key(long: bytes)
        }
    }

    @inline(never)
    private init(long bytes: Span<UInt8>) {
        self.init(head: Key.ordered(Key.words(of: bytes.extracting(first: 8)).head), LongText(bytes))
    }

    @inline(never)
    private init(repairing bytes: Span<UInt8>) {
        let text = unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
        self.init(unchecked: Text(text))
    }

    private static func isUTF8(_ bytes: Span<UInt8>) -> Bool {
        // `UInt8` has no padding: every byte of the span is initialised.
        unsafe isValidUTF8(bytes.bytes)
    }
}

// MARK: - Integers

extension Key {
    /// Tells most texts that are no integer apart by three of their bytes, push ids among them.
    @inline(__always)
    private static func mayBeInteger(_ bytes: Span<UInt8>) -> Bool {
        let count = bytes.count
        // `-` and `0`…`9` stand together.
        return count > 0 && bytes[0] <= UInt8(ascii: "9") && bytes[count &- 1] &- 0x30 <= 9
            && bytes[count / 2] &- 0x30 <= 9
    }

    /// Nil when the text is no integer.
    private init?(integer bytes: Span<UInt8>) {
        var index = 0
        let count = bytes.count
        let isNegative = count > 0 && bytes[0] == UInt8(ascii: "-")
        if isNegative { index = 1 }
        guard index < count else { return nil }
        var value: Int64 = 0
        while index < count {
            let digit = bytes[index] &- 0x30
            guard digit <= 9 else { return nil }
            value = value &* 10 &+ Int64(digit)
            // At most one past ten digits: no overflow.
            guard value <= 2_147_483_648 else { return nil }
            index &+= 1
        }
        guard isNegative || value <= 2_147_483_647 else { return nil }
        let sign: UInt64 = isNegative && value == 0 ? 0 : 1
        self.init(
            head: UInt64(bitPattern: (isNegative ? -value : value) &+ 0x8000_0000),
            tail: UInt64(truncatingIfNeeded: count) << 1 | sign)
    }
}

// MARK: - Short texts

extension Key {
    /// Bytes of a text that needs no heap.
    private static let shortByteCount = 15

    /// Up to sixteen bytes as two numbers, the first byte highest, zeros behind the last.
    @inline(__always)
    private static func words(of bytes: Span<UInt8>) -> (head: UInt64, rest: UInt64) {
        let count = bytes.count
        // `UInt8` has no padding: every byte of the span is initialised. Below, all loads are of bytes that
        // are there.
        let raw = unsafe bytes.bytes
        if count >= 8 {
            let head = unsafe raw.unsafeLoadUnaligned(fromUncheckedByteOffset: 0, as: UInt64.self).bigEndian
            let last = unsafe raw.unsafeLoadUnaligned(fromUncheckedByteOffset: count &- 8, as: UInt64.self)
            return (head, last.bigEndian << UInt64(8 &* (16 &- count)))
        }
        if count >= 4 {
            let first = unsafe raw.unsafeLoadUnaligned(fromUncheckedByteOffset: 0, as: UInt32.self).bigEndian
            let last = unsafe raw.unsafeLoadUnaligned(fromUncheckedByteOffset: count &- 4, as: UInt32.self)
            // They overlap where both have the same bytes.
            return (UInt64(first) << 32 | UInt64(last.bigEndian) << UInt64(8 &* (8 &- count)), 0)
        }
        var head: UInt64 = 0
        for index in bytes.indices { head |= UInt64(bytes[index]) << UInt64(56 &- 8 &* index) }
        return (head, 0)
    }

    /// Eight bytes of UTF-8, changed so that as a number they are ordered by UTF-16 code units: U+E000…U+FFFF
    /// (lead bytes EE and EF) go behind what is a pair of surrogates (lead bytes F0…F4), to FE and FF, which
    /// UTF-8 has not.
    @inline(__always)
    private static func ordered(_ word: UInt64) -> UInt64 {
        word & everyByte(0x80) == 0 ? word : word | marks(word & everyByte(0xFE) ^ everyByte(0xEE)) >> 3
    }

    /// Undoes ``ordered(_:)``.
    @inline(__always)
    static func bytes(ordered word: UInt64) -> UInt64 {
        word & everyByte(0x80) == 0 ? word : word & ~(marks(word & everyByte(0xFE) ^ everyByte(0xFE)) >> 3)
    }

    /// 80 in each byte that is zero, 0 in the others.
    @inline(__always)
    private static func marks(_ word: UInt64) -> UInt64 {
        ~((word & everyByte(0x7F)) &+ everyByte(0x7F) | word) & everyByte(0x80)
    }

    /// Bytes of a short text.
    @inline(__always)
    static func shortCount(_ words: (head: UInt64, tail: UInt64)) -> Int {
        let rest = words.tail << 8
        return rest != 0 ? 16 &- rest.trailingZeroBitCount / 8 : 8 &- words.head.trailingZeroBitCount / 8
    }
}

// MARK: - Push ids

extension Key {
    /// Nil when some character is not of the alphabet.
    @inline(__always)
    private init?(packing bytes: Span<UInt8>) {
        precondition(bytes.count == sixBitTextCount)
        // `UInt8` has no padding: every byte of the span is initialised. Loads end at 8, 16 and 20 bytes of
        // 20.
        let raw = unsafe bytes.bytes
        let first = unsafe raw.unsafeLoadUnaligned(fromUncheckedByteOffset: 0, as: UInt64.self)
        let second = unsafe raw.unsafeLoadUnaligned(fromUncheckedByteOffset: 8, as: UInt64.self)
        let last = unsafe raw.unsafeLoadUnaligned(fromUncheckedByteOffset: 12, as: UInt64.self)
        guard let first = sixBits(of: first.bigEndian), let second = sixBits(of: second.bigEndian),
            let last = sixBits(of: last.bigEndian)
        else { return nil }
        self.init(
            head: first << 16 | second >> 32,
            tail: Kind.packed | (second & 0xFFFF_FFFF) << 24 | last & 0xFF_FFFF)
    }

    /// The key of twenty characters of the push alphabet.
    /// - Parameters:
    ///   - high: The first ten, and four bits of the next.
    ///   - low: The other 56 bits.
    init(sixBits high: UInt64, _ low: UInt64) {
        let packed = Key(head: high, tail: Kind.packed | low & (1 << 56 &- 1))
        // A letter in the second place: no integer.
        self = high >> 52 & 63 > 10 ? packed : packed.withBytes { Key(utf8: $0) }
    }
}

extension ByteCursor {
    /// The key that an absolute range spells, as ``Key/init(unchecked:)-(Span<UInt8>)`` has it. Traps
    /// outside.
    package func key(_ range: Range<Int>) -> Key {
        unsafe withBytes(range) { unsafe Key(unchecked: $0.span) }
    }

    /// The same; nil when it is no legal key (§8.6).
    package func legalKey(_ range: Range<Int>) -> Key? {
        unsafe withBytes(range) { unsafe Key(legal: $0.span) }
    }
}
