/// The channels of a loop that were written to in this tick: each is flushed once, at its end.
///
/// Confined to the loop. A class, because what is called back adds to the list.
final class FlushList {
    private let configuration: LoopConfiguration
    private var written: [Pollable] = []

    init(_ configuration: LoopConfiguration) {
        self.configuration = configuration
    }

    var isEmpty: Bool { written.isEmpty }

    /// - Precondition: The channel is not in the list.
    func append(_ channel: Pollable) { written.append(channel) }

    func removeAll() { written.removeAll() }

    /// Flushes channels, first those with little unsent output, then the others, until `tickShare` has
    /// passed. The rest is flushed first in the next tick.
    ///
    /// What is written meanwhile, for example by `channelDidDrain`, is flushed in the next tick, too:
    /// otherwise a peer that reads fast enough could keep the loop here.
    /// - Parameter isLast: There is no next tick: all are flushed.
    func flush(isLast: Bool) {
        guard !written.isEmpty else { return }
        var batch = exchange(&written, with: [])
        var bulk: [Pollable] = []
        var pace = TickPace()
        var index = 0
        while index < batch.count {
            let channel = batch[index]
            index += 1
            if channel.hasBulkOutput {
                bulk.append(channel)
            } else {
                channel.flushAtEndOfTick()
                if pace.isOver(configuration), !isLast { break }
            }
        }
        var bulkCount = 0
        while bulkCount < bulk.count {
            bulk[bulkCount].flushAtEndOfTick()
            bulkCount += 1
            if pace.isOver(configuration, wasLong: true), !isLast { break }
        }
        if index < batch.count || bulkCount < bulk.count {
            written.insert(contentsOf: batch[index...] + bulk[bulkCount...], at: 0)
        }
        batch.removeAll(keepingCapacity: true)
        // Its capacity is used again.
        if written.isEmpty { written = consume batch }
    }
}
