import PandoBytes

// From keys to bytes.

extension Key {
    /// Lends the UTF-8 bytes to `body`.
    @inline(__always)
    package func withBytes<Result, Failure: Error>(
        _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        if let spelled = long ?? overlongInteger { return try spelled.withBytes(body) }
        var room: Room = (0, 0, 0, 0)
        return try unsafe withUnsafeMutableBytes(of: &room) { (room) throws(Failure) -> Result in
            let range = unsafe spell(in: room)
            // In bounds: a range of the room, all of which is initialised, and lent for the call.
            return try unsafe body(room.bindMemory(to: UInt8.self).span.extracting(range))
        }
    }

    /// Room for all keys but long ones and integers with more zeros than anybody writes, and a quote at each
    /// end.
    typealias Room = (UInt64, UInt64, UInt64, UInt64)
    package static let roomByteCount = 32

    /// - Returns: Where in the room the text stands: neither the first nor the last byte is part of it.
    func spell(in room: UnsafeMutableRawBufferPointer) -> Range<Int> {
        precondition(room.count == Key.roomByteCount)
        let words = words
        if words.tail < Kind.short {
            let end = Key.roomByteCount &- 1
            var place = unsafe room.bindMemory(to: UInt8.self).extracting(..<end).mutableSpan
            spellInteger(words, in: &place)
            return (end &- Int(truncatingIfNeeded: words.tail >> 1))..<end
        }
        if words.tail < Kind.packed {
            unsafe room.storeBytes(
                of: Key.bytes(ordered: words.head).bigEndian, toByteOffset: 1, as: UInt64.self)
            unsafe room.storeBytes(
                of: Key.bytes(ordered: words.tail << 8).bigEndian, toByteOffset: 9, as: UInt64.self)
            return 1..<(1 &+ Key.shortCount(words))
        }
        let second = (words.head & 0xFFFF) << 32 | words.tail >> 24 & 0xFFFF_FFFF
        let last = (words.tail & 0xFF_FFFF) << 24
        unsafe room.storeBytes(
            of: sixBitCharacters(words.head >> 16).bigEndian, toByteOffset: 1, as: UInt64.self)
        unsafe room.storeBytes(of: sixBitCharacters(second).bigEndian, toByteOffset: 9, as: UInt64.self)
        unsafe room.storeBytes(of: sixBitCharacters(last).bigEndian, toByteOffset: 17, as: UInt64.self)
        return 1..<(1 &+ sixBitTextCount)
    }

    /// Writes an integer key as it was spelled to the end of `place`, which has room for it.
    private func spellInteger(_ words: (head: UInt64, tail: UInt64), in place: inout MutableSpan<UInt8>) {
        let value = Int64(bitPattern: words.head) &- 0x8000_0000
        let count = Int(truncatingIfNeeded: words.tail >> 1)
        let first = place.count &- count
        var rest = value.magnitude
        var index = place.count
        while index > first {
            index &-= 1
            place[index] = UInt8(truncatingIfNeeded: rest % 10) &+ 0x30
            rest /= 10
        }
        if value < 0 || words.tail & 1 == 0 { place[first] = UInt8(ascii: "-") }
    }

    /// An integer with so many zeros in front that it needs a place of its own to be spelled in.
    private var overlongInteger: LongText? {
        let words = words
        guard words.tail < Kind.short, words.tail >> 1 > UInt64(Key.roomByteCount &- 2) else { return nil }
        return LongText(byteCount: Int(truncatingIfNeeded: words.tail >> 1)) { spellInteger(words, in: &$0) }
    }

    package var utf8Count: Int {
        let words = words
        if let long { return long.count }
        if words.tail < Kind.short { return Int(truncatingIfNeeded: words.tail >> 1) }
        return words.tail < Kind.packed ? Key.shortCount(words) : sixBitTextCount
    }

    /// True when this is the key's text.
    package func isSpelled(_ text: Text) -> Bool {
        guard utf8Count == text.utf8Count else { return false }
        return withBytes { a in text.withBytes { b in compareUTF16(a, b) == 0 } }
    }

    /// A copy of the text, for people and for values; what is written out borrows the bytes instead.
    package var string: String {
        withBytes { bytes in
            unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
        }
    }

    /// As ``string``.
    package var text: Text { withBytes { Text(utf8: $0) } }
}

extension Key: ExpressibleByStringLiteral, CustomStringConvertible {
    package init(stringLiteral value: StaticString) {
        // The span does not outlive the buffer, which is lent for the call.
        self = value.withUTF8Buffer { unsafe Key(utf8: $0.span) }
    }
    package var description: String { string }
}

extension [UInt8] {
    /// Appends the key's UTF-8.
    package mutating func append(utf8 key: Key) {
        // `UInt8` has no padding: every byte of the span is initialised.
        key.withBytes { append(unsafe $0.bytes) }
    }

    /// Appends a varint length, then the key's UTF-8.
    package mutating func append(counted key: Key) {
        key.withBytes {
            append(varint: UInt64($0.count))
            // As above.
            append(unsafe $0.bytes)
        }
    }
}

extension [UInt8] {
    /// Appends what ``Path/wireText`` spells, counted, without spelling it first.
    package mutating func append(counted path: Path) {
        append(counted: path.keys.span)
    }

    /// The same of a part of a path.
    package mutating func append(counted keys: Span<Key>) {
        guard !keys.isEmpty else { return append(0) }
        guard !appendOnce(counted: keys) else { return }
        var byteCount = keys.count - 1
        for index in keys.indices { byteCount += keys[index].utf8Count }
        append(room: Self.varintByteLimit + byteCount + Key.roomByteCount) { writer in
            // Each key is written with the byte before it: the length's last, or a slash.
            var last = byteCount
            while last >= 0x80 {
                writer.append(UInt8(truncatingIfNeeded: last) | 0x80)
                last >>= 7
            }
            writer.append(UInt8(truncatingIfNeeded: last), utf8: keys)
        }
    }

    /// Writes the keys first and then, in front of them, how long they have become, which saves looking at
    /// each twice.
    /// - Returns: false, and nothing is appended, where they are too many, or too long for the room that most
    ///   keep to.
    private mutating func appendOnce(counted keys: Span<Key>) -> Bool {
        // What fits in has a length of one byte.
        guard keys.count <= 0x80 / Key.roomByteCount else { return false }
        var isDone = false
        append(room: keys.count &* Key.roomByteCount) { writer in
            // The byte before the first key is the length's.
            writer.append(0, utf8: keys)
            guard !writer.isOverrun else { return writer.truncate(to: 0) }
            writer.replace(UInt8(truncatingIfNeeded: writer.count &- 1), at: 0)
            isDone = true
        }
        return isDone
    }

    /// Bytes of the longest varint.
    private static var varintByteLimit: Int { 10 }
}

extension ByteWriter {
    /// Appends a varint length, then the key's UTF-8.
    package mutating func append(counted key: Key) {
        if spell(key, behind: { UInt8(truncatingIfNeeded: $0) }) { return }
        key.withBytes {
            append(varint: UInt64($0.count))
            // `UInt8` has no padding: every byte of the span is initialised.
            append(unsafe $0.bytes)
        }
    }

    /// Appends a byte, then the keys' UTF-8 with a slash between each and the next.
    @inline(__always)
    fileprivate mutating func append(_ first: UInt8, utf8 keys: Span<Key>) {
        var before = first
        for index in keys.indices {
            // The key is not kept: looked at where it is, it is not counted.
            if !spell(keys[index], behind: { _ in before }) {
                append(before)
                // As above.
                keys[index].withBytes { append(unsafe $0.bytes) }
            }
            before = UInt8(ascii: "/")
        }
    }

    /// Most keys are spelled where they are to be, behind a byte that `first` makes of their length.
    /// - Returns: false when this one is not, or where less than ``Key/roomByteCount`` is left: then nothing
    ///   was written.
    @inline(__always)
    private mutating func spell(_ key: Key, behind first: (_ byteCount: Int) -> UInt8) -> Bool {
        unsafe write(into: Key.roomByteCount) { room in
            guard key.isSpelledFromTheFront else { return nil }
            let range = unsafe key.spell(in: room)
            unsafe room[0] = first(range.count)
            return range.upperBound
        }
    }
}

extension Key {
    /// Whether ``spell(in:)`` begins with the second byte: short texts and push ids.
    @inline(__always)
    fileprivate var isSpelledFromTheFront: Bool {
        let tail = words.tail
        return tail >= Kind.short && tail < Kind.long
    }

    /// Lends the text in quotes, when nothing in it is escaped in JSON and it has not its own place on the
    /// heap.
    /// - Returns: Nil without a call of `body` otherwise.
    @inline(__always)
    func withPlainJSON(_ body: (UnsafeRawBufferPointer) -> Void) -> Void? {
        let words = words
        let isPlain =
            words.tail < Kind.packed
            ? words.tail >= Kind.short && !Key.needsEscape(words) : words.tail < Kind.long
        guard isPlain else { return nil }
        var room: Room = (0, 0, 0, 0)
        return unsafe withUnsafeMutableBytes(of: &room) { room in
            let range = unsafe spell(in: room)
            unsafe room[range.lowerBound &- 1] = UInt8(ascii: "\"")
            unsafe room[range.upperBound] = UInt8(ascii: "\"")
            return unsafe body(
                UnsafeRawBufferPointer(rebasing: room[(range.lowerBound &- 1)...range.upperBound]))
        }
    }

    /// Of a short text.
    @inline(__always)
    private static func needsEscape(_ words: (head: UInt64, tail: UInt64)) -> Bool {
        // Spaces take the place of the zeros behind the end.
        let count = shortCount(words)
        let spaces = everyByte(0x20)
        let head = words.head | spaces >> UInt64(8 &* count)
        let rest = words.tail << 8 | (count > 8 ? spaces >> UInt64(8 &* (count &- 8)) : spaces)
        return JSONReader.bytesThatNeedCare(head) | JSONReader.bytesThatNeedCare(rest) != 0
    }
}
