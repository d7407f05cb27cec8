/// Writes forward into memory of a fixed size at the end of an array; ``ByteCursor`` is its counterpart for
/// reading. For encoders of many small values: with `[UInt8].append`, the array's checks at every byte (is it
/// shared, is there capacity) would be most of the work.
///
/// Every write is checked against the end. One that does not fit writes nothing (a varint or a number may
/// write its beginning) and sets ``isOverrun``; ``truncate(to:)`` removes what was written behind some place.
/// `append(atMost:_:)` makes writers, which must not outlive that call.
@safe
@usableFromInline
package struct ByteWriter {
    @usableFromInline let base: UnsafeMutablePointer<UInt8>
    /// Most bytes that can be written.
    @usableFromInline package let capacity: Int
    /// Bytes written. Invariant: `0...capacity`.
    @usableFromInline package private(set) var count = 0
    /// Whether some write did not fit: then the output is incomplete.
    @usableFromInline package private(set) var isOverrun = false

    @inlinable
    init(base: UnsafeMutablePointer<UInt8>, capacity: Int) {
        unsafe self.base = unsafe base
        self.capacity = capacity
    }

    /// Appends one byte.
    @inlinable
    package mutating func append(_ byte: UInt8) {
        guard count < capacity else { return isOverrun = true }
        // In bounds: guarded.
        unsafe base[count] = byte
        count &+= 1
    }

    /// Appends the bytes of a span.
    @inlinable
    package mutating func append(_ bytes: RawSpan) {
        let byteCount = bytes.byteCount
        guard byteCount <= capacity &- count else { return isOverrun = true }
        // In bounds on both sides: guarded, and all of the span.
        unsafe bytes.withUnsafeBytes { source in
            guard let start = source.baseAddress else { return }
            unsafe UnsafeMutableRawPointer(base + count).copyMemory(from: start, byteCount: byteCount)
        }
        count &+= byteCount
    }

    /// As `[UInt8].append(littleEndian:)`.
    @inlinable
    package mutating func append<Integer: FixedWidthInteger>(littleEndian value: Integer) {
        let size = MemoryLayout<Integer>.size
        guard size <= capacity &- count else { return isOverrun = true }
        // In bounds: guarded.
        unsafe UnsafeMutableRawPointer(base + count).storeBytes(of: value.littleEndian, as: Integer.self)
        count &+= size
    }

    /// As `[UInt8].append(varint:)`.
    @inlinable
    package mutating func append(varint value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        append(UInt8(truncatingIfNeeded: rest))
    }

    /// Appends ASCII text from the program itself.
    @inlinable
    @inline(__always)
    package mutating func append(_ text: StaticString) {
        let byteCount = text.utf8CodeUnitCount
        guard byteCount <= capacity &- count else { return isOverrun = true }
        // In bounds on both sides: guarded, and all of the text.
        unsafe UnsafeMutableRawPointer(base + count).copyMemory(from: text.utf8Start, byteCount: byteCount)
        count &+= byteCount
    }

    /// Digits of the longest 64-bit number, its sign not counted.
    @inlinable package static var decimalByteLimit: Int { 20 }

    /// As `[UInt8].append(decimal:)`.
    @inlinable
    package mutating func append(decimal value: Int64) {
        if value < 0 { append(0x2D) }
        append(decimal: value.magnitude)
    }

    /// As `[UInt8].append(decimal:)`.
    @inlinable
    package mutating func append(decimal value: UInt64) {
        var digitCount = 1
        var rest = value / 10
        while rest > 0 {
            rest /= 10
            digitCount &+= 1
        }
        guard digitCount <= capacity &- count else { return isOverrun = true }
        count &+= digitCount
        var place = count
        rest = value
        for _ in 0..<digitCount {
            place &-= 1
            // In bounds: guarded, from the last digit to the first.
            unsafe base[place] = UInt8(truncatingIfNeeded: rest % 10) &+ 0x30
            rest /= 10
        }
    }

    /// Overwrites a byte written before. Traps outside.
    @inlinable
    package mutating func replace(_ byte: UInt8, at offset: Int) {
        precondition(offset >= 0 && offset < count)
        unsafe base[offset] = byte
    }

    /// Lets `body` write into the next `byteCount` bytes.
    /// - Parameter body: Returns how many of them, from the first on, it has written; nil for none.
    /// - Returns: false when fewer than `byteCount` bytes are left, or `body` returned nil; then nothing was
    ///   written.
    @inlinable
    @inline(__always)
    package mutating func write(
        into byteCount: Int, _ body: (UnsafeMutableRawBufferPointer) -> Int?
    ) -> Bool {
        guard byteCount <= capacity &- count else { return false }
        // In bounds: guarded.
        guard let written = unsafe body(UnsafeMutableRawBufferPointer(start: base + count, count: byteCount))
        else {
            return false
        }
        precondition(written >= 0 && written <= byteCount)
        count &+= written
        return true
    }

    /// Removes what was written behind the first `count` bytes, and clears ``isOverrun``.
    @inlinable
    package mutating func truncate(to count: Int) {
        precondition(count >= 0 && count <= self.count)
        self.count = count
        isOverrun = false
    }
}

extension [UInt8] {
    /// Appends what `body` writes: at most `byteCount` bytes.
    /// - Complexity: That of `body`, and one copy of the array if its capacity is too small.
    @inlinable
    package mutating func append(atMost byteCount: Int, _ body: (inout ByteWriter) -> Void) {
        // The writer counts the bytes it has written, all of them from the first on, and never more than its
        // capacity.
        append(addingCapacity: byteCount) { output in
            unsafe output.withUnsafeMutableBufferPointer { free, writtenCount in
                guard let start = free.baseAddress else {
                    preconditionFailure("an array has no memory behind its elements")
                }
                var writer = unsafe ByteWriter(base: start, capacity: byteCount)
                defer { writtenCount = writer.count }
                body(&writer)
            }
        }
    }
}
