/// In which queues of the ``FlushList`` a channel is.
///
/// A channel that becomes prompt while it is among the others is in both queues; the second one finds nothing
/// to flush. So a channel is in each of them at most once.
struct FlushQueues: OptionSet {
    let rawValue: UInt8

    static let prompt = FlushQueues(rawValue: 1)
    static let others = FlushQueues(rawValue: 2)
    static let bulk = FlushQueues(rawValue: 4)
}
