import PandoBytes
import PandoCompression

/// Bounds the output of a compressed message in proportion to its input. The reader's `messageByteLimit` is
/// the absolute bound.
package struct InflationLimits: Sendable {
    /// Most bytes of output for each byte of input. Real JSON is compressed to a tenth, sometimes to a
    /// fiftieth; deflate reaches 1032.
    package var ratio: Int
    /// Up to this many bytes of output any ratio is allowed.
    package var freeByteCount: Int

    package init(ratio: Int = 250, freeByteCount: Int = 1 << 20) {
        self.ratio = max(1, ratio)
        self.freeByteCount = max(0, freeByteCount)
    }

    /// Most bytes of output for `count` bytes of input.
    func outputByteLimit(input count: Int) -> Int {
        let (product, overflows) = count.multipliedReportingOverflow(by: ratio)
        return max(freeByteCount, overflows ? .max : product)
    }
}

/// Inflates the messages of one direction (RFC 7692 §7.2.2), each as a whole.
///
/// Without context takeover nothing is left of a message: then one inflater serves all connections of a loop.
/// Confined to one thread.
package final class MessageInflater {
    private let inflater: Inflater
    private let takesOver: Bool
    private let limits: InflationLimits
    /// Messages that become longer are not inflated here (``MessageReader``); nil where all are. Without
    /// takeover only.
    let deferredByteCount: Int?
    /// Bytes of output so far, of messages that were not finished, too.
    package private(set) var outputByteCount = 0
    /// What may still be inflated until ``refillBudget()``, compressed bytes included: messages that are
    /// longer are deferred, too. Those of ``undeferredByteCount`` never are.
    package private(set) var budgetByteCount: Int
    private let fullBudgetByteCount: Int
    private let grant: CompressionBudget.Grant?
    /// Empty; its memory is used for the next message.
    private var spare: [UInt8] = []

    /// A sync flush ends with these bytes, which the sender removes (RFC 7692 §7.2.1).
    static let flushEnd: [UInt8] = [0x00, 0x00, 0xFF, 0xFF]
    /// Messages up to this are never deferred: to inflate them takes a microsecond or two. Among them are
    /// those that are not JSON of the protocol by themselves, such as the number of chunks that follow.
    package static let undeferredByteCount = 256
    /// A byte of input that gives no output may take as long as so many bytes of output.
    private static let excessCost = 64
    /// Bytes of a message that count so: a loop inflates no more of them (``Inflater``).
    private static let costlyExcess = 1 << 10
    /// Most capacity that is kept for the next message.
    private static let spareByteLimit = 64 << 10
    /// Blocks of a message that are marked as the last (RFC 7692 §7.2.3.4): senders write one, at most. Each
    /// makes zlib begin anew, without any output that the limits would bound.
    private static let lastBlockLimit = 1024

    /// - Parameters:
    ///   - deferredByteCount: Messages that become longer are left to the caller of the reader, still
    ///     compressed: to inflate them takes long. nil for none, and where messages refer to each other.
    ///   - budgetByteCount: What is inflated between two calls of ``refillBudget()`` before shorter messages
    ///     are deferred, too. Many short ones take as long as a long one.
    ///   - grant: Of a budget; held as long as the inflater.
    /// - Throws: ``CompressionError/noMemory``.
    package init(
        _ direction: DeflateAgreement.Direction, limits: InflationLimits = InflationLimits(),
        deferringBeyond deferredByteCount: Int? = nil, budgetByteCount: Int = .max,
        grant: consuming CompressionBudget.Grant? = nil
    ) throws(CompressionError) {
        inflater = try Inflater(.raw(windowBits: direction.windowBits))
        takesOver = direction.takesOver
        self.limits = limits
        self.deferredByteCount = direction.takesOver ? nil : deferredByteCount
        self.budgetByteCount = budgetByteCount
        fullBudgetByteCount = budgetByteCount
        self.grant = grant
    }

    /// As much was inflated as may be until ``refillBudget()``.
    var isBudgetUsedUp: Bool { budgetByteCount == 0 }

    /// A new period begins.
    package func refillBudget() { budgetByteCount = fullBudgetByteCount }

    /// Most bytes that a message may have before it is inflated: data that cannot be compressed becomes a
    /// little longer, by at most an eighth with the smallest buffers (zlib's `deflateBound`).
    static func compressedByteLimit(messageByteLimit: Int) -> Int {
        let (sum, overflows) = messageByteLimit.addingReportingOverflow(messageByteLimit / 8 + 64)
        return overflows ? .max : sum
    }

    /// Inflates a message.
    /// - Parameters:
    ///   - compressed: The payloads of all its frames.
    ///   - byteLimit: Most bytes of the result.
    /// - Returns: For ``recycle(_:)``.
    /// - Throws: ``ProtocolViolation``; then no message may follow on the same connection.
    /// - Parameter isBrief: It is refused after a millisecond of input without output.
    package func inflate(
        _ compressed: RawSpan, byteLimit: Int, isBrief: Bool = false
    ) throws(ProtocolViolation) -> [UInt8] {
        let proportional = limits.outputByteLimit(input: compressed.byteCount)
        let limit = min(byteLimit, proportional)
        let output = try inflate(compressed, upTo: limit, isBrief: isBrief)
        guard output.count <= limit else {
            throw limit == byteLimit
                ? .messageTooBig(byteLimit: byteLimit) : .inflationRatioExceeded(limit: limits.ratio)
        }
        guard inflater.isAtBlockEnd else { throw .invalidDeflateData }
        if !takesOver { inflater.reset() }
        return output
    }

    /// Inflates a message, unless it becomes longer than ``deferredByteCount``, or than ``budgetByteCount``
    /// allows.
    /// - Returns: nil for one that does; nothing is left of it here.
    /// - Throws: As ``inflate(_:byteLimit:)``.
    func inflateUnlessDeferred(_ compressed: RawSpan, byteLimit: Int) throws(ProtocolViolation) -> [UInt8]? {
        guard let longest = longestUndeferredByteCount, longest < byteLimit,
            longest < limits.outputByteLimit(input: compressed.byteCount)
        else { return try inflate(compressed, byteLimit: byteLimit) }
        defer { inflater.reset() }
        let output: [UInt8]
        do throws(ProtocolViolation) { output = try inflate(compressed, upTo: longest, isBrief: true) } catch
        {
            // It may be a message that was flushed behind each few bytes.
            if inflater.hasExcess { return nil }
            throw error
        }
        guard output.count <= longest else {
            recycle(output)
            return nil
        }
        guard inflater.isAtBlockEnd else { throw .invalidDeflateData }
        return output
    }

    private var longestUndeferredByteCount: Int? {
        deferredByteCount.map { min($0, max(budgetByteCount, Self.undeferredByteCount)) }
    }

    /// - Returns: The message, or its first `limit` + 1 bytes.
    /// - Parameter isBrief: It is given up after a millisecond of input without output.
    private func inflate(
        _ compressed: RawSpan, upTo limit: Int, isBrief: Bool = false
    ) throws(ProtocolViolation) -> [UInt8] {
        if !takesOver { inflater.reset() }
        inflater.beginMessage(isBrief: isBrief)
        var output = exchange(&spare, with: [])
        defer {
            outputByteCount &+= output.count
            let excess = max(0, compressed.byteCount - output.count)
            let cost = output.count + compressed.byteCount + Self.excessCost * min(excess, Self.costlyExcess)
            budgetByteCount = max(0, budgetByteCount - cost)
        }
        do {
            try inflate(compressed, outputByteLimit: limit, into: &output)
            if output.count <= limit {
                try inflate(Self.flushEnd.rawSpan, outputByteLimit: limit, into: &output)
            }
        } catch {
            throw error == .noMemory ? .noMemoryToInflate : .invalidDeflateData
        }
        return output
    }

    /// Stops one byte above the limit.
    private func inflate(
        _ input: RawSpan, outputByteLimit limit: Int, into output: inout [UInt8]
    ) throws(CompressionError) {
        var offset = 0
        var lastBlockCount = 0
        while offset < input.byteCount, output.count <= limit {
            let outcome = try inflater.inflate(
                input, from: &offset, atMost: limit - output.count + 1, into: &output)
            guard outcome == .end else { continue }
            lastBlockCount += 1
            guard lastBlockCount <= Self.lastBlockLimit else { throw .corrupt }
            inflater.continueAfterLastBlock()
        }
    }

    /// Takes back the memory of a message that was handled.
    func recycle(_ bytes: consuming [UInt8]) {
        guard bytes.capacity <= Self.spareByteLimit else { return }
        bytes.removeAll(keepingCapacity: true)
        spare = bytes
    }
}
