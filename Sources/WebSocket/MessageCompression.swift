import PandoCompression

/// The inflater and the deflaters that connections of one loop share: those without context takeover. Each is
/// made when it is needed first. Confined to one thread.
package final class SharedCompression {
    private let options: MessageDeflater.Options
    private let limits: InflationLimits
    private let deferredByteCount: Int?
    private let inflationByteCount: Int
    private let fullBudget: CompressedByteBudget
    /// What may still be compressed until ``refillBudgets()``; messages beyond it are sent as they are.
    package var budget: CompressedByteBudget
    private var inflater: MessageInflater?
    private var deflaters: [Int: MessageDeflater] = [:]

    /// - Parameters:
    ///   - deferredByteCount: Messages that become longer when they are inflated are left to the caller of
    ///     the reader (``Event/compressed(isText:_:)``); nil for none.
    ///   - inflationByteCount: What is inflated between two calls of ``refillBudgets()`` before shorter
    ///     messages are left to the caller, too, where any are.
    ///   - budget: What may be compressed between two calls of ``refillBudgets()``. For loops that serve many
    ///     connections; others need no bound. So is it with `inflationByteCount`.
    package init(
        options: MessageDeflater.Options = MessageDeflater.Options(),
        limits: InflationLimits = InflationLimits(), deferringBeyond deferredByteCount: Int? = nil,
        inflationByteCount: Int = .max, budget: CompressedByteBudget = .unlimited
    ) {
        self.options = options
        self.limits = limits
        self.deferredByteCount = deferredByteCount
        self.inflationByteCount = inflationByteCount
        fullBudget = budget
        self.budget = budget
    }

    /// A new period begins.
    package func refillBudgets() {
        budget = fullBudget
        inflater?.refillBudget()
    }

    /// Inflates messages of every window.
    /// - Throws: ``CompressionError/noMemory``.
    package func sharedInflater() throws(CompressionError) -> MessageInflater {
        if let inflater { return inflater }
        let new = try MessageInflater(
            .init(takesOver: false, windowBits: 15), limits: limits, deferringBeyond: deferredByteCount,
            budgetByteCount: inflationByteCount)
        inflater = new
        return new
    }

    /// Compresses messages for every receiver whose window has at least 2^`windowBits` bytes.
    /// - Parameter windowBits: 8…15.
    /// - Throws: ``CompressionError/noMemory``.
    package func deflater(windowBits: Int) throws(CompressionError) -> MessageDeflater {
        if let deflater = deflaters[windowBits] { return deflater }
        let new = try MessageDeflater(.init(takesOver: false, windowBits: windowBits), options: options)
        deflaters[windowBits] = new
        return new
    }

    /// Compresses messages for receivers of a window.
    /// - Returns: nil where the system has no memory: then messages are plain.
    package func deflater(for window: DeflateWindow) -> MessageDeflater? {
        try? deflater(windowBits: Int(window.rawValue))
    }

    /// A connection's own, or nil where the budget refuses.
    fileprivate func ownInflater(
        _ direction: DeflateAgreement.Direction, _ budget: CompressionBudget
    ) throws(CompressionError) -> MessageInflater? {
        let byteCount = CompressionMemory.inflaterByteCount(windowBits: direction.windowBits)
        guard let grant = budget.grant(byteCount) else { return nil }
        return try MessageInflater(direction, limits: limits, grant: grant)
    }

    fileprivate func ownDeflater(
        _ direction: DeflateAgreement.Direction, _ budget: CompressionBudget
    ) throws(CompressionError) -> MessageDeflater? {
        let byteCount = CompressionMemory.deflaterByteCount(
            windowBits: direction.windowBits, memoryLevel: options.memoryLevel)
        guard let grant = budget.grant(byteCount) else { return nil }
        return try MessageDeflater(direction, options: options, grant: grant)
    }
}

/// The compression of one connection: the inflater of the peer's messages, the deflater of its own.
package struct MessageCompression {
    /// For ``MessageReader/init(role:messageByteLimit:checksText:inflater:)``.
    package let inflater: MessageInflater
    package let deflater: MessageDeflater

    /// - Parameters:
    ///   - agreement: Of the handshake.
    ///   - role: This end of the connection.
    ///   - shared: Of the connection's loop; gives what needs no state of this connection.
    ///   - budget: Grants the memory of what does.
    /// - Returns: nil where the budget or the system has not enough memory: a server then goes on without
    ///   compression (``ServerHandshake/declineDeflate()``), a client without the connection.
    package init?(
        _ agreement: DeflateAgreement, role: Role, shared: SharedCompression, budget: CompressionBudget
    ) {
        let (incoming, outgoing) =
            role == .server ? (agreement.client, agreement.server) : (agreement.server, agreement.client)
        guard
            let inflater = try? incoming.takesOver
                ? shared.ownInflater(incoming, budget) : shared.sharedInflater(),
            let deflater = try? outgoing.takesOver
                ? shared.ownDeflater(outgoing, budget) : shared.deflater(windowBits: outgoing.windowBits)
        else { return nil }
        self.inflater = inflater
        self.deflater = deflater
    }
}
