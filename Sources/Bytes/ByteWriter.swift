/// Writes forward into room of a fixed size that an array lends: what ``ByteCursor`` is to reading. For
/// encoders of many small things, to which the array's own questions (am I shared, have I room?) at every
/// byte would be most of the work.
///
/// Every write is checked against the end. One that does not fit writes nothing (a varint or a number perhaps
/// its beginning), and is remembered in ``isOverrun``; what was written since some moment is taken back with
/// ``truncate(to:)``. A writer is handed out by `append(room:_:)` and must not outlive that call.
@safe
@usableFromInline
package struct ByteWriter {
    @usableFromInline let base: UnsafeMutablePointer<UInt8>
    /// Bytes there is room for.
    @usableFromInline package let capacity: Int
    /// Bytes written. Invariant: `0...capacity`.
    @usableFromInline package private(set) var count = 0
    /// Something did not fit: what was written is no whole.
    @usableFromInline package private(set) var isOverrun = false

    @inlinable
    init(base: UnsafeMutablePointer<UInt8>, capacity: Int) {
        unsafe self.base = unsafe base
        self.capacity = capacity
    }

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

    /// Digits of the longest 64-bit number; a sign comes beside them.
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
    /// - Parameter body: Gives how many of them, from the first on, it wrote; nil for none.
    /// - Returns: false when there is less room, or `body` gave nil; then nothing was written.
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

    /// Takes back what was written behind the first `count` bytes, and that something did not fit.
    @inlinable
    package mutating func truncate(to count: Int) {
        precondition(count >= 0 && count <= self.count)
        self.count = count
        isOverrun = false
    }
}

extension [UInt8] {
    /// Makes room for so many more bytes and lets `body` write into it; the array ends where the writer does.
    /// - Complexity: What `body` does, and one copy of the array if it had less room.
    @inlinable
    package mutating func append(room byteCount: Int, _ body: (inout ByteWriter) -> Void) {
        // The writer counts the bytes it has written, all of them from the first on, and never more than
        // there is room.
        append(addingCapacity: byteCount) { output in
            unsafe output.withUnsafeMutableBufferPointer { room, writtenCount in
                guard let start = room.baseAddress else {
                    preconditionFailure("an array has no memory for its room")
                }
                var writer = unsafe ByteWriter(base: start, capacity: byteCount)
                defer { writtenCount = writer.count }
                body(&writer)
            }
        }
    }
}
