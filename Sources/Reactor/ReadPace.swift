/// Whether a channel is new or its reads take long, so that in a tick other channels are read first
/// (``Pollable/isBulk``).
struct ReadPace {
    /// New, and begun in the bulk set, until the second read, or until the channel is written to: many
    /// connections bring one request and end, and so do not change sets (``Poller``).
    private var isNew: Bool
    /// Reads for which the channel stays bulk, because one before them took long or was full.
    private var bulkReadCount: UInt8 = 0

    /// Reads of fewer bytes are not measured: they cannot take long.
    static let measuredByteCount = 2 << 10
    /// Reads that a channel stays bulk after one that took long: a peer that mixes short and long ones gains
    /// little, and changes sets seldom.
    private static let bulkReadLimit: UInt8 = 8

    /// - Parameter isNew: Whether the channel is new, and begins in the bulk set.
    init(isNew: Bool = true) { self.isNew = isNew }

    /// The socket was read.
    /// - Parameter isFull: The peer has more, probably.
    /// - Returns: Whether the channel is bulk.
    mutating func noteRead(isFull: Bool) -> Bool {
        if isFull { bulkReadCount = Self.bulkReadLimit }
        let isBulk = isNew || bulkReadCount > 0
        isNew = false
        if bulkReadCount > 0 { bulkReadCount -= 1 }
        return isBulk
    }

    /// To handle what was read took long.
    mutating func noteLong() { bulkReadCount = Self.bulkReadLimit }

    /// The handshake of TLS is done, or the server's part of it that takes long. Its reads were those of a
    /// busy channel, which the next ones are not: beside thousands of handshakes each of them would wait for
    /// all of those.
    /// - Parameter isFull: The peer has more than the last of these reads took, probably.
    /// - Returns: Whether the channel is bulk.
    mutating func noteAnswered(isFull: Bool) -> Bool {
        isNew = false
        bulkReadCount = isFull ? Self.bulkReadLimit : 0
        return isFull
    }

    /// The socket takes output again. A client that sends once and then reads is not new for ever.
    /// - Returns: Whether the channel is bulk.
    mutating func noteWritable() -> Bool {
        isNew = false
        return bulkReadCount > 0
    }
}
