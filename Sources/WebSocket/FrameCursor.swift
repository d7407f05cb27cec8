import PandoBytes

/// A position in the input of ``MessageReader/next(_:from:)``, which makes one for each call: reads forward
/// and changes bytes in place. Every access is checked against the end.
@safe
struct FrameCursor {
    private let base: UnsafeMutableRawPointer
    let count: Int
    /// The next byte to read. Invariant: `0...count`.
    private(set) var offset: Int

    /// `base` must have `count` bytes and outlive this value.
    @unsafe
    init(base: UnsafeMutableRawPointer, count: Int, offset: Int) {
        unsafe self.base = base
        self.count = count
        self.offset = max(0, min(offset, count))
    }

    /// Bytes from `offset` on.
    var remaining: Int { count &- offset }

    /// Moves forward. Traps behind the end.
    mutating func advance(_ distance: Int) {
        precondition(distance >= 0 && distance <= remaining)
        offset &+= distance
    }

    /// The byte `ahead` places after the next one. Traps outside.
    subscript(ahead: Int) -> UInt8 {
        precondition(ahead >= 0 && ahead < remaining)
        return unsafe base.load(fromByteOffset: offset &+ ahead, as: UInt8.self)
    }

    /// An integer `ahead` places after the next byte, in memory order. Traps outside.
    func load<Integer: FixedWidthInteger & BitwiseCopyable>(_ ahead: Int, as: Integer.Type) -> Integer {
        precondition(ahead >= 0 && ahead <= remaining &- MemoryLayout<Integer>.size)
        return unsafe base.loadUnaligned(fromByteOffset: offset &+ ahead, as: Integer.self)
    }

    /// Masks or unmasks the next `length` bytes in place. Traps outside.
    /// - Returns: Whether the results are ASCII.
    mutating func applyMask(_ length: Int, key: UInt32) -> Bool {
        precondition(length >= 0 && length <= remaining)
        return unsafe PandoWebSocket.applyMask(base + offset, count: length, key: key)
    }

    /// Whether the next `length` bytes are ASCII. Traps outside.
    func isASCII(_ length: Int) -> Bool {
        precondition(length >= 0 && length <= remaining)
        return unsafe PandoWebSocket.isASCII(base + offset, count: length)
    }

    /// Calls `body` with the next `length` bytes. Traps outside.
    func withBytes<Result>(_ length: Int, _ body: (RawSpan) -> Result) -> Result {
        precondition(length >= 0 && length <= remaining)
        return unsafe body(UnsafeRawBufferPointer(start: base + offset, count: length).bytes)
    }

    /// Calls `body` with the bytes of an absolute range. Traps outside.
    func withBytes<Result>(
        of range: Range<Int>, _ body: (RawSpan) throws(ProtocolViolation) -> Result
    ) throws(ProtocolViolation) -> Result {
        precondition(range.lowerBound >= 0 && range.upperBound <= count)
        return try unsafe body(
            UnsafeRawBufferPointer(start: base + range.lowerBound, count: range.count).bytes)
    }

    /// A copy of an absolute range, for rare frames. Traps outside.
    func copy(_ range: Range<Int>) -> [UInt8] {
        precondition(range.lowerBound >= 0 && range.upperBound <= count)
        return unsafe Array(UnsafeRawBufferPointer(start: base + range.lowerBound, count: range.count))
    }
}
