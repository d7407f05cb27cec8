import PandoBytes

// From bytes to keys. From keys to bytes is in Key+Bytes.swift.

extension Key {
    /// - Parameter text: Must be a legal key if the key is stored; this is not checked. For text from clients
    ///   use ``init(validating:)``. Any text may be used for comparisons.
    package init(unchecked text: Text) {
        self = text.withBytes { Key(utf8: $0) }
    }

    /// As ``init(unchecked:)-(Text)``, from bytes. Bytes that are not UTF-8 become U+FFFD, as in `String`.
    /// O(bytes).
    package init(unchecked bytes: Span<UInt8>) {
        if let common = Key(common: bytes, isLegal: false) { self = common } else { self.init(any: bytes) }
    }

    /// As ``init(unchecked:)-(Span<UInt8>)``; nil when it is not a legal key (§8.6).
    package init?(legal bytes: Span<UInt8>) {
        if let common = Key(common: bytes, isLegal: true) {
            self = common
        } else {
            guard Key.isLegal(bytes) else { return nil }
            self.init(any: bytes)
        }
    }

    /// A short text, push id or integer of ASCII, as most keys are.
    /// - Parameter isLegal: Whether a short text that is not a legal key gives nil.
    /// - Returns: nil for any other key.
    @inline(__always)
    private init?(common bytes: Span<UInt8>, isLegal: Bool) {
        let count = bytes.count
        guard count > 0 else { return nil }
        if Key.mayBeInteger(bytes) {
            // Digits are legal; only the length may not be.
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
            // Spaces, which are legal, replace the zeros behind the last byte.
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

    /// A key from 16 bytes of memory, of which the first `byteCount` are legal ASCII.
    /// - Parameters:
    ///   - first: Bytes 1…8, the first one lowest.
    ///   - second: Bytes 9…16.
    /// - Returns: nil where the key has more than 15 bytes, or may be an integer.
    package init?(plain first: UInt64, _ second: UInt64, byteCount: Int) {
        // Integers begin with `-` or a digit.
        guard byteCount > 0, byteCount <= Key.shortByteCount, first & 0xFF > 0x39 else { return nil }
        let bits = UInt64(truncatingIfNeeded: 8 &* byteCount)
        if bits <= 64 {
            // A shift by 64 gives 0.
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
        guard Key.isLegal(text) else { throw .illegalKey(text) }
        self.init(unchecked: text)
    }

    /// The key of an array's element. Short: no allocation below 2^31.
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
    /// false for most texts that are not integers, push ids included: by three of their bytes.
    @inline(__always)
    private static func mayBeInteger(_ bytes: Span<UInt8>) -> Bool {
        let count = bytes.count
        // In ASCII `-` is before `0`…`9`, with only `.` and `/` between.
        return count > 0 && bytes[0] <= UInt8(ascii: "9") && bytes[count &- 1] &- 0x30 <= 9
            && bytes[count / 2] &- 0x30 <= 9
    }

    /// - Returns: nil when the text is not an integer.
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
    /// Most bytes of a text that needs no heap allocation.
    private static let shortByteCount = 15

    /// Up to sixteen bytes as two numbers, the first byte highest, zeros behind the last.
    @inline(__always)
    static func words(of bytes: Span<UInt8>) -> (head: UInt64, rest: UInt64) {
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

    /// Eight bytes of UTF-8, changed so that as a number they are ordered by UTF-16 code units: lead bytes EE
    /// and EF (U+E000…U+FFFF) become FE and FF, which UTF-8 does not use, and so come after F0…F4 (surrogate
    /// pairs).
    @inline(__always)
    static func ordered(_ word: UInt64) -> UInt64 {
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

    /// The byte count of a short text.
    @inline(__always)
    static func shortCount(_ words: (head: UInt64, tail: UInt64)) -> Int {
        let rest = words.tail << 8
        return rest != 0 ? 16 &- rest.trailingZeroBitCount / 8 : 8 &- words.head.trailingZeroBitCount / 8
    }
}

// MARK: - Push ids

extension Key {
    /// - Returns: nil when some character is not in the push alphabet.
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
    ///   - high: 64 bits: the first ten characters, and four bits of the eleventh.
    ///   - low: The other 56 bits.
    init(sixBits high: UInt64, _ low: UInt64) {
        let packed = Key(head: high, tail: Kind.packed | low & (1 << 56 &- 1))
        // With a letter as the second character it cannot be an integer.
        self = high >> 52 & 63 > 10 ? packed : packed.withBytes { Key(utf8: $0) }
    }
}

extension ByteCursor {
    /// The key of an absolute range, as ``Key/init(unchecked:)-(Span<UInt8>)`` makes it. Traps outside.
    package func key(_ range: Range<Int>) -> Key {
        unsafe withBytes(range) { unsafe Key(unchecked: $0.span) }
    }

    /// As ``key(_:)``; nil when it is not a legal key (§8.6).
    package func legalKey(_ range: Range<Int>) -> Key? {
        unsafe withBytes(range) { unsafe Key(legal: $0.span) }
    }
}
