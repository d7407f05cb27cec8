// Writing into a growing `[UInt8]`, the buffer of all encoders, and reading back what was written.

extension [UInt8] {
    /// The bytes, borrowed. O(1).
    @inlinable
    package var rawSpan: RawSpan {
        @_lifetime(borrow self)
        get {
            // `UInt8` has no padding: every byte of the span is initialised.
            unsafe span.bytes
        }
    }

    /// Appends ASCII text of the program. No allocation but for the array's growth.
    @inlinable
    package mutating func append(_ text: StaticString) {
        unsafe append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    /// Appends the text's UTF-8.
    @inlinable
    package mutating func append(utf8 text: String) {
        append(contentsOf: text.utf8)
    }

    /// Appends the text's UTF-8.
    package mutating func append(utf8 text: Text) {
        // `UInt8` has no padding: every byte of the span is initialised.
        text.withBytes { append(unsafe $0.bytes) }
    }

    /// A copy of the bytes of a span.
    @inlinable
    package init(copying bytes: RawSpan) {
        self = unsafe bytes.withUnsafeBytes { unsafe Array($0) }
    }

    /// Appends the bytes of a span.
    @inlinable
    package mutating func append(_ bytes: RawSpan) {
        unsafe bytes.withUnsafeBytes { unsafe append(contentsOf: $0) }
    }

    /// Appends the bytes of a span to an array that may become large: from 1 MiB on the capacity grows by a
    /// factor of four in place of two, so that the contents are copied less often. Pages that are not filled
    /// take no memory.
    package mutating func appendGrowing(_ bytes: RawSpan) {
        let needed = count + bytes.byteCount
        if needed > capacity, capacity >= Self.fastGrowthByteCount {
            reserveCapacity(Swift.max(needed, 4 * capacity))
        }
        append(bytes)
    }

    private static var fastGrowthByteCount: Int { 1 << 20 }

    /// Appends a number in decimal: `-12`.
    @inlinable
    package mutating func append(decimal value: Int64) {
        append(atMost: 1 + ByteWriter.decimalByteLimit) { $0.append(decimal: value) }
    }

    /// Appends a number in decimal: `12`.
    @inlinable
    package mutating func append(decimal value: UInt64) {
        append(atMost: ByteWriter.decimalByteLimit) { $0.append(decimal: value) }
    }

    /// Appends an integer, least significant byte first.
    @inlinable
    package mutating func append<Integer: FixedWidthInteger>(littleEndian value: Integer) {
        unsafe Swift.withUnsafeBytes(of: value.littleEndian) { unsafe append(contentsOf: $0) }
    }

    /// Overwrites an integer written before, least significant byte first. Traps outside.
    @inlinable
    package mutating func replace<Integer: FixedWidthInteger>(littleEndian value: Integer, at offset: Int) {
        var rest = value
        for index in offset..<(offset + MemoryLayout<Integer>.size) {
            self[index] = UInt8(truncatingIfNeeded: rest)
            rest >>= 8
        }
    }

    /// Appends a length or count in 7-bit groups, least significant first (LEB128).
    @inlinable
    package mutating func append(varint value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        append(UInt8(truncatingIfNeeded: rest))
    }

    /// Appends a varint length, then the text's UTF-8.
    package mutating func append(counted text: String) {
        append(varint: UInt64(text.utf8.count))
        append(utf8: text)
    }

    /// Appends a varint length, then the text's UTF-8.
    package mutating func append(counted text: Text) {
        append(varint: UInt64(text.utf8Count))
        append(utf8: text)
    }
}

/// Bytes that ended too early, or a number that is out of range.
@usableFromInline
package struct TruncatedBytes: Error, Equatable {
    @inlinable package init() {}
}

extension ByteCursor {
    /// Reads what `append(littleEndian:)` wrote.
    /// - Throws: ``TruncatedBytes`` when fewer bytes remain.
    @inlinable
    package mutating func readLittleEndian<Integer: FixedWidthInteger>(
        _: Integer.Type = Integer.self
    ) throws(TruncatedBytes) -> Integer {
        let size = MemoryLayout<Integer>.size
        guard remaining >= size else { throw TruncatedBytes() }
        var value: Integer = 0
        for index in 0..<size {
            value |= Integer(truncatingIfNeeded: self[offset &+ index]) << Integer(8 &* index)
        }
        advance(size)
        return value
    }

    /// Reads what `append(varint:)` wrote.
    /// - Throws: ``TruncatedBytes`` at the end, and for more than 64 bits.
    @inlinable
    package mutating func readVarint() throws(TruncatedBytes) -> UInt64 {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        while true {
            guard !isAtEnd else { throw TruncatedBytes() }
            let byte = current
            // The tenth byte may have the 64th bit and no other.
            guard shift < 63 || byte <= 1 else { throw TruncatedBytes() }
            advance()
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return value }
            shift += 7
        }
    }

    /// Reads a varint length and skips that many bytes.
    /// - Returns: Their range.
    /// - Throws: ``TruncatedBytes`` when fewer remain.
    @inlinable
    package mutating func readCounted() throws(TruncatedBytes) -> Range<Int> {
        let length = try readVarint()
        guard length <= UInt64(remaining) else { throw TruncatedBytes() }
        let start = offset
        advance(Int(length))
        return start..<offset
    }
}
