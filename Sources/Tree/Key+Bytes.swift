import PandoBytes

// From keys to bytes. From bytes to keys is in Key+Text.swift.

extension Key {
    /// Calls `body` with the UTF-8 bytes, which are valid during the call.
    /// - Throws: What `body` throws.
    /// - Complexity: O(bytes) for keys that are not on the heap, else O(1).
    @inline(__always)
    package func withBytes<Result, Failure: Error>(
        _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        if let text = long ?? overlongInteger { return try text.withBytes(body) }
        var buffer: TextBuffer = (0, 0, 0, 0)
        return try unsafe withUnsafeMutableBytes(of: &buffer) { (buffer) throws(Failure) -> Result in
            let range = unsafe writeText(to: buffer)
            // In bounds: a range of the buffer, all of which is initialised. Used only during the call.
            return try unsafe body(buffer.bindMemory(to: UInt8.self).span.extracting(range))
        }
    }

    /// A buffer for the text of any key but long ones and integers with many leading zeros, and for a quote
    /// at each end.
    typealias TextBuffer = (UInt64, UInt64, UInt64, UInt64)
    /// Bytes of such a buffer.
    package static let textBufferByteCount = 32

    /// Writes the text of a key that is not on the heap.
    /// - Returns: The range of the text in the buffer; it includes neither the first nor the last byte of the
    ///   buffer.
    func writeText(to buffer: UnsafeMutableRawBufferPointer) -> Range<Int> {
        precondition(buffer.count == Key.textBufferByteCount)
        let words = words
        if words.tail < Kind.short {
            let end = Key.textBufferByteCount &- 1
            var output = unsafe buffer.bindMemory(to: UInt8.self).extracting(..<end).mutableSpan
            writeInteger(words, to: &output)
            return (end &- Int(truncatingIfNeeded: words.tail >> 1))..<end
        }
        if words.tail < Kind.packed {
            unsafe buffer.storeBytes(
                of: Key.bytes(ordered: words.head).bigEndian, toByteOffset: 1, as: UInt64.self)
            unsafe buffer.storeBytes(
                of: Key.bytes(ordered: words.tail << 8).bigEndian, toByteOffset: 9, as: UInt64.self)
            return 1..<(1 &+ Key.shortCount(words))
        }
        let second = (words.head & 0xFFFF) << 32 | words.tail >> 24 & 0xFFFF_FFFF
        let last = (words.tail & 0xFF_FFFF) << 24
        unsafe buffer.storeBytes(
            of: sixBitCharacters(words.head >> 16).bigEndian, toByteOffset: 1, as: UInt64.self)
        unsafe buffer.storeBytes(of: sixBitCharacters(second).bigEndian, toByteOffset: 9, as: UInt64.self)
        unsafe buffer.storeBytes(of: sixBitCharacters(last).bigEndian, toByteOffset: 17, as: UInt64.self)
        return 1..<(1 &+ sixBitTextCount)
    }

    /// Writes the text of an integer key to the end of `output`, which must be long enough.
    private func writeInteger(_ words: (head: UInt64, tail: UInt64), to output: inout MutableSpan<UInt8>) {
        let value = Int64(bitPattern: words.head) &- 0x8000_0000
        let count = Int(truncatingIfNeeded: words.tail >> 1)
        let first = output.count &- count
        var rest = value.magnitude
        var index = output.count
        while index > first {
            index &-= 1
            output[index] = UInt8(truncatingIfNeeded: rest % 10) &+ 0x30
            rest /= 10
        }
        if value < 0 || words.tail & 1 == 0 { output[first] = UInt8(ascii: "-") }
    }

    /// The text of an integer key with so many leading zeros that it does not fit the buffer; nil for other
    /// keys.
    private var overlongInteger: LongText? {
        let words = words
        guard words.tail < Kind.short, words.tail >> 1 > UInt64(Key.textBufferByteCount &- 2) else {
            return nil
        }
        return LongText(byteCount: Int(truncatingIfNeeded: words.tail >> 1)) { writeInteger(words, to: &$0) }
    }

    /// Bytes of UTF-8; O(1).
    package var utf8Count: Int {
        let words = words
        if let long { return long.count }
        if words.tail < Kind.short { return Int(truncatingIfNeeded: words.tail >> 1) }
        return words.tail < Kind.packed ? Key.shortCount(words) : sixBitTextCount
    }

    /// Whether this is the key's text. O(bytes).
    package func isSpelled(_ text: Text) -> Bool {
        guard utf8Count == text.utf8Count else { return false }
        return withBytes { a in text.withBytes { b in compareUTF16(a, b) == 0 } }
    }

    /// The text as a `String`. O(bytes). To write it out, use ``withBytes(_:)``.
    package var string: String {
        withBytes { bytes in
            unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
        }
    }

    /// The text as a ``Text``. O(bytes).
    package var text: Text { withBytes { Text(utf8: $0) } }
}

extension Key: ExpressibleByStringLiteral, CustomStringConvertible {
    package init(stringLiteral value: StaticString) {
        // The span is used only during the call, in which the buffer is valid.
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
    /// Appends a varint length, then ``Path/wireText``, without making that text first.
    package mutating func append(counted path: Path) {
        append(counted: path.keys.span)
    }

    /// As ``append(counted:)-(Path)``, for a part of a path.
    package mutating func append(counted keys: Span<Key>) {
        guard !keys.isEmpty else { return append(0) }
        guard !appendOnce(counted: keys) else { return }
        var byteCount = keys.count - 1
        for index in keys.indices { byteCount += keys[index].utf8Count }
        append(atMost: Self.varintByteLimit + byteCount + Key.textBufferByteCount) { writer in
            // Each key is written with the byte before it: the last byte of the length, or a slash.
            var last = byteCount
            while last >= 0x80 {
                writer.append(UInt8(truncatingIfNeeded: last) | 0x80)
                last >>= 7
            }
            writer.append(UInt8(truncatingIfNeeded: last), utf8: keys)
        }
    }

    /// Writes the keys first, and then their length in front of them, so that each key is read only once.
    /// - Returns: false, with nothing appended, where there are too many keys, or they do not fit the
    ///   reserved bytes.
    private mutating func appendOnce(counted keys: Span<Key>) -> Bool {
        // What fits has a length of one byte.
        guard keys.count <= 0x80 / Key.textBufferByteCount else { return false }
        var isDone = false
        append(atMost: keys.count &* Key.textBufferByteCount) { writer in
            // The byte before the first key is for the length.
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
        if write(key, behind: { UInt8(truncatingIfNeeded: $0) }) { return }
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
            // Accessed in place, so that the key's reference is not counted.
            if !write(keys[index], behind: { _ in before }) {
                append(before)
                // As above.
                keys[index].withBytes { append(unsafe $0.bytes) }
            }
            before = UInt8(ascii: "/")
        }
    }

    /// Writes a key's text directly to the output, behind a byte that `first` makes from its length. Works
    /// for most keys.
    /// - Returns: false for other keys, or where fewer than ``Key/textBufferByteCount`` bytes are left: then
    ///   nothing was written.
    @inline(__always)
    private mutating func write(_ key: Key, behind first: (_ byteCount: Int) -> UInt8) -> Bool {
        unsafe write(into: Key.textBufferByteCount) { buffer in
            guard key.startsAtSecondByte else { return nil }
            let range = unsafe key.writeText(to: buffer)
            unsafe buffer[0] = first(range.count)
            return range.upperBound
        }
    }
}

extension Key {
    /// Whether ``writeText(to:)`` writes from the second byte of the buffer on: for short texts and push ids.
    @inline(__always)
    fileprivate var startsAtSecondByte: Bool {
        let tail = words.tail
        return tail >= Kind.short && tail < Kind.long
    }

    /// Calls `body` with the text in quotes, if it needs no escapes in JSON and is not on the heap.
    /// - Returns: nil otherwise; then `body` was not called.
    @inline(__always)
    func withPlainJSON(_ body: (UnsafeRawBufferPointer) -> Void) -> Void? {
        let words = words
        let isPlain =
            words.tail < Kind.packed
            ? words.tail >= Kind.short && !Key.needsEscape(words) : words.tail < Kind.long
        guard isPlain else { return nil }
        var buffer: TextBuffer = (0, 0, 0, 0)
        return unsafe withUnsafeMutableBytes(of: &buffer) { buffer in
            let range = unsafe writeText(to: buffer)
            unsafe buffer[range.lowerBound &- 1] = UInt8(ascii: "\"")
            unsafe buffer[range.upperBound] = UInt8(ascii: "\"")
            return unsafe body(
                UnsafeRawBufferPointer(rebasing: buffer[(range.lowerBound &- 1)...range.upperBound]))
        }
    }

    /// Whether a short text has characters that are escaped in JSON.
    @inline(__always)
    private static func needsEscape(_ words: (head: UInt64, tail: UInt64)) -> Bool {
        // Spaces replace the zeros behind the last byte.
        let count = shortCount(words)
        let spaces = everyByte(0x20)
        let head = words.head | spaces >> UInt64(8 &* count)
        let rest = words.tail << 8 | (count > 8 ? spaces >> UInt64(8 &* (count &- 8)) : spaces)
        return JSONReader.specialBytes(head) | JSONReader.specialBytes(rest) != 0
    }
}
