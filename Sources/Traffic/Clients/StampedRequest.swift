import PandoBytes

/// A request that a sender repeats: only the stamp and, in protocols that number requests, the number change.
/// Sending it again costs a few stores.
///
/// A class over memory of its own for the same reason as ``FIFO``.
@safe
final class StampedRequest {
    /// Memory for at least ``byteCount`` bytes.
    private var message: UnsafeMutableRawPointer?
    private var byteCount = 0
    private var stampOffset = 0
    /// Where the number stands, and numbers with as many digits.
    private var numberOffset = 0
    private var numberEnd = 0
    private var leastNumber = 0
    private var numberLimit = 0
    /// The sender's place that it is for; nil before the first.
    private var place: Int?

    init() {}

    deinit {
        unsafe message?.deallocate()
    }

    /// Whether the request is for `place`, and its number has as many digits as `number`.
    func fits(place: Int, number: Int = 0) -> Bool {
        place == self.place && number >= leastNumber && number < numberLimit
    }

    /// Becomes the request for `place`.
    /// - Parameters:
    ///   - bytes: All of it, with any stamp and number.
    ///   - stampOffset: Where the stamp begins.
    ///   - number: Where the number's digits are; nil where there are none, and every number fits.
    func become(_ bytes: [UInt8], place: Int, stampOffset: Int, number: Range<Int>? = nil) {
        let stampEnd = stampOffset + Stamp.shortestTimedByteCount
        precondition(stampOffset >= 0 && stampEnd <= bytes.count, "no stamp there")
        // So many digits that one more still fits in an `Int`.
        precondition(number.map { $0.upperBound <= bytes.count && $0.count < 18 } ?? true, "no number there")
        if unsafe bytes.count > byteCount || message == nil {
            unsafe message?.deallocate()
            unsafe message = .allocate(byteCount: bytes.count, alignment: 8)
        }
        // In bounds: at least `bytes.count` bytes were allocated.
        unsafe bytes.withUnsafeBytes { source in
            guard let start = source.baseAddress else { return }
            unsafe message?.copyMemory(from: start, byteCount: source.count)
        }
        (byteCount, self.stampOffset, self.place) = (bytes.count, stampOffset, place)
        (numberOffset, numberEnd, leastNumber, numberLimit) = (0, 0, 0, .max)
        guard let number else { return }
        (numberOffset, numberEnd) = (number.lowerBound, number.upperBound)
        numberLimit = number.reduce(1) { limit, _ in limit * 10 }
        leastNumber = number.count == 1 ? 0 : numberLimit / 10
    }

    /// Writes the stamp and the number into the request, and calls `body` with it.
    /// - Parameter number: One that ``fits(place:number:)``.
    func with(_ request: Pending, number: Int = 0, _ body: (RawSpan) -> Void) {
        guard let message = unsafe message else { preconditionFailure("no request was made") }
        precondition(number >= leastNumber && number < numberLimit, "the number has another count of digits")
        // In bounds: `byteCount` bytes are there.
        let buffer = unsafe UnsafeMutableRawBufferPointer(start: message, count: byteCount)
        var bytes = unsafe buffer.mutableBytes
        Stamp.rewrite(request.detail, time: request.intended, at: stampOffset, in: &bytes)
        var (rest, offset) = (UInt(bitPattern: number), numberEnd)
        while offset > numberOffset {
            offset &-= 1
            let digit = UInt8(truncatingIfNeeded: rest % 10) &+ 0x30
            bytes.storeBytes(of: digit, toByteOffset: offset, as: UInt8.self)
            rest /= 10
        }
        body(bytes.bytes)
    }
}
