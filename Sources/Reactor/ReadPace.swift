/// Whether the reads of a channel take long, so that in a tick other channels are read first
/// (``Pollable/isBulk``).
struct ReadPace {
    /// Reads for which the channel stays bulk: its first one, and some after one that took long. So the many
    /// connections that bring one request and end never change sets (``Poller``).
    private var bulkReadCount: UInt8 = 1

    /// Reads of fewer bytes are not measured: they cannot take long.
    static let measuredByteCount = 2 << 10
    /// Reads that a channel stays bulk after one that took long: a peer that mixes short and long ones gains
    /// little.
    private static let bulkReadLimit: UInt8 = 8

    /// The socket was read.
    /// - Parameter isFull: The peer has more, probably.
    /// - Returns: Whether the channel is bulk.
    mutating func noteRead(isFull: Bool) -> Bool {
        let isBulk = isFull || bulkReadCount > 0
        if bulkReadCount > 0 { bulkReadCount -= 1 }
        return isBulk
    }

    /// To handle what was read took long.
    mutating func noteLong() { bulkReadCount = Self.bulkReadLimit }
}
