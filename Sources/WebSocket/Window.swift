import PandoBytes

/// What is left of the event loop's receive buffer, with a place in it.
///
/// Every access is checked against the end. Made by ``MessageReader/next(_:from:)`` for the time of one call.
@safe
struct Window {
    private let base: UnsafeMutableRawPointer
    let count: Int
    /// Invariant: `0...count`.
    private(set) var offset: Int

    /// `base` must have `count` bytes and outlive this value.
    @unsafe
    init(base: UnsafeMutableRawPointer, count: Int, offset: Int) {
        unsafe self.base = base
        self.count = count
        self.offset = max(0, min(offset, count))
    }

    var remaining: Int { count &- offset }

    mutating func advance(_ distance: Int) {
        precondition(distance >= 0 && distance <= remaining)
        offset &+= distance
    }

    /// The byte `ahead` places from here. Traps outside.
    subscript(ahead: Int) -> UInt8 {
        precondition(ahead >= 0 && ahead < remaining)
        return unsafe base.load(fromByteOffset: offset &+ ahead, as: UInt8.self)
    }

    /// An integer `ahead` places from here, as it lies in memory. Traps outside.
    func load<Integer: FixedWidthInteger & BitwiseCopyable>(_ ahead: Int, as: Integer.Type) -> Integer {
        precondition(ahead >= 0 && ahead <= remaining &- MemoryLayout<Integer>.size)
        return unsafe base.loadUnaligned(fromByteOffset: offset &+ ahead, as: Integer.self)
    }

    /// Masks or unmasks the next `length` bytes in place; says whether they are ASCII then. Traps outside.
    mutating func applyMask(_ length: Int, key: UInt32) -> Bool {
        precondition(length >= 0 && length <= remaining)
        return unsafe PandoWebSocket.applyMask(base + offset, count: length, key: key)
    }

    /// Whether the next `length` bytes are ASCII. Traps outside.
    func isASCII(_ length: Int) -> Bool {
        precondition(length >= 0 && length <= remaining)
        return unsafe PandoWebSocket.isASCII(base + offset, count: length)
    }

    /// Lends the next `length` bytes. Traps outside.
    func withBytes<Result>(_ length: Int, _ body: (RawSpan) -> Result) -> Result {
        precondition(length >= 0 && length <= remaining)
        return unsafe body(UnsafeRawBufferPointer(start: base + offset, count: length).bytes)
    }

    /// A copy of bytes by their place in the window, for rare frames. Traps outside.
    func copy(_ range: Range<Int>) -> [UInt8] {
        precondition(range.lowerBound >= 0 && range.upperBound <= count)
        return unsafe Array(UnsafeRawBufferPointer(start: base + range.lowerBound, count: range.count))
    }
}
