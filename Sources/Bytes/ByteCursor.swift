/// Reads forward through bytes that the caller keeps alive. Only this type lets parsers access raw memory.
///
/// Every access is checked against the end, so a parser that uses a cursor cannot read outside, whatever the
/// bytes are. ``withCursor(over:_:)`` makes cursors, which must not outlive that call.
@safe
@usableFromInline
package struct ByteCursor {
    @usableFromInline let base: UnsafePointer<UInt8>
    /// All bytes, those before `offset` included.
    @usableFromInline package let count: Int
    /// The next byte to read. Invariant: `0...count`.
    @usableFromInline package var offset: Int

    @inlinable
    init(base: UnsafePointer<UInt8>, count: Int) {
        unsafe self.base = unsafe base
        self.count = count
        self.offset = 0
    }

    /// Whether no byte is left.
    @inlinable package var isAtEnd: Bool { offset >= count }
    /// Bytes from `offset` on.
    @inlinable package var remaining: Int { count &- offset }

    /// The next byte, or 0 at the end. (0 is in no grammar that is read here.)
    @inlinable package var current: UInt8 {
        // In bounds: guarded.
        offset < count ? unsafe base[offset] : 0
    }

    /// The byte `ahead` places after the next one, or 0 beyond the end.
    @inlinable package func peek(_ ahead: Int) -> UInt8 {
        let index = offset &+ ahead
        return index < count && index >= 0 ? unsafe base[index] : 0
    }

    /// Moves forward by `distance` bytes, or to the end if fewer remain. Traps for a negative distance.
    @inlinable package mutating func advance(_ distance: Int = 1) {
        precondition(distance >= 0)
        offset = distance > remaining ? count : offset &+ distance
    }

    /// The byte at an absolute offset. Traps outside.
    @inlinable package subscript(index: Int) -> UInt8 {
        precondition(index >= 0 && index < count)
        return unsafe base[index]
    }

    /// Eight bytes from the next one, little-endian, or nil when fewer remain.
    @inlinable package var word: UInt64? {
        guard remaining >= 8 else { return nil }
        // In bounds: eight bytes remain.
        return UInt64(littleEndian: unsafe UnsafeRawPointer(base + offset).loadUnaligned(as: UInt64.self))
    }

    /// Eight bytes from `ahead` places after the next one, little-endian, or nil when fewer remain there.
    @inlinable package func word(_ ahead: Int) -> UInt64? {
        guard ahead >= 0, remaining >= 8, ahead <= remaining &- 8 else { return nil }
        // In bounds: eight bytes remain there.
        return UInt64(
            littleEndian: unsafe UnsafeRawPointer(base + offset + ahead).loadUnaligned(as: UInt64.self))
    }

    /// Moves behind `text` if the next bytes are those of `text`; else does not move.
    /// - Returns: Whether it moved.
    @inlinable
    @inline(__always)  // So the text is a constant: a call takes 40 instructions.
    package mutating func consume(_ text: StaticString) -> Bool {
        let length = text.utf8CodeUnitCount
        guard remaining >= length else { return false }
        // In bounds on both sides: indexes below the text's length, and at least as many bytes remain.
        let next = unsafe UnsafeRawPointer(base + offset)
        let wanted = unsafe UnsafeRawPointer(text.utf8Start)
        var index = 0
        while index &+ 8 <= length {
            guard
                unsafe next.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                    == wanted.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            else { return false }
            index &+= 8
        }
        while index < length {
            guard unsafe next.load(fromByteOffset: index, as: UInt8.self) == text.utf8Start[index] else {
                return false
            }
            index &+= 1
        }
        offset &+= length
        return true
    }

    /// Whether the remaining bytes end with `text`.
    package func endsWith(_ text: StaticString) -> Bool {
        let length = text.utf8CodeUnitCount
        guard remaining >= length else { return false }
        // In bounds on both sides, as above.
        for index in 0..<length where unsafe base[count - length + index] != text.utf8Start[index] {
            return false
        }
        return true
    }

    /// Gives the bytes of an absolute range to `body`. Traps outside.
    /// - Throws: What `body` throws.
    @inlinable
    package func withBytes<Result, Failure: Error>(
        _ range: Range<Int>, _ body: (UnsafeBufferPointer<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        precondition(range.lowerBound >= 0 && range.upperBound <= count)
        return try unsafe body(UnsafeBufferPointer(start: base + range.lowerBound, count: range.count))
    }

    /// The text of an absolute range that is known to be UTF-8. One copy. Traps outside.
    @inlinable
    package func string(_ range: Range<Int>) -> String {
        unsafe withBytes(range) { bytes in unsafe String(decoding: bytes, as: UTF8.self) }
    }

    /// A copy of an absolute range. Traps outside.
    @inlinable
    package func array(_ range: Range<Int>) -> [UInt8] {
        unsafe withBytes(range) { bytes in unsafe Array(bytes) }
    }
}

/// Calls `body` with a cursor at the first of `bytes`.
/// - Returns: What `body` returns.
/// - Throws: What `body` throws.
@inlinable
package func withCursor<Result, Failure: Error>(
    over bytes: RawSpan, _ body: (inout ByteCursor) throws(Failure) -> Result
) throws(Failure) -> Result {
    try unsafe bytes.withUnsafeBytes { (buffer: UnsafeRawBufferPointer) throws(Failure) -> Result in
        guard let start = buffer.baseAddress else {
            var nothing: UInt8 = 0
            return try unsafe withUnsafePointer(to: &nothing) { (pointer) throws(Failure) -> Result in
                var cursor = unsafe ByteCursor(base: pointer, count: 0)
                return try body(&cursor)
            }
        }
        var cursor = unsafe ByteCursor(
            base: start.assumingMemoryBound(to: UInt8.self), count: buffer.count)
        return try body(&cursor)
    }
}
