/// The channels of a loop that were written to in this tick: each is flushed once, at its end.
///
/// Confined to the loop. A class, because what is called back adds to the list.
final class FlushList {
    private let configuration: LoopConfiguration
    /// Written to since the last ``flush(isLast:)``.
    private var written: [Pollable] = []
    /// To be flushed first, the next one at the end.
    private var due: [Pollable] = []
    /// To be flushed behind all others, the next one first: they have much unsent output.
    private var bulk: [Pollable] = []

    init(_ configuration: LoopConfiguration) {
        self.configuration = configuration
    }

    var isEmpty: Bool { written.isEmpty && due.isEmpty && bulk.isEmpty }

    /// - Precondition: The channel is not in the list.
    func append(_ channel: Pollable) { written.append(channel) }

    func removeAll() {
        written.removeAll()
        due.removeAll()
        bulk.removeAll()
    }

    /// Flushes channels, first those with little unsent output, then the others, until `tickShare` has
    /// passed; at least one of each. The rest is flushed in the next tick: each before those of its kind that
    /// are written to later.
    ///
    /// What is written meanwhile, for example by `channelDidDrain`, is flushed in the next tick, too:
    /// otherwise a peer that reads fast enough could keep the loop here.
    /// - Parameter isLast: There is no next tick: all are flushed that were written to before.
    func flush(isLast: Bool) {
        guard !isEmpty else { return }
        // What is left of earlier ticks, then what was written to in this one.
        let hasRest = !due.isEmpty
        if !hasRest { takeWritten() }
        // The clock is read where there are many: to send takes ten microseconds for each, or more.
        let isLong = due.count > TickPace.uncheckedLimit
        var pace = TickPace(began: isLong ? configuration.clock() : nil)
        let isOver = flushDue(&pace, isLast: isLast)
        if hasRest, !isOver {
            takeWritten()
            _ = flushDue(&pace, isLast: isLast)
        }
        var bulkCount = 0
        while bulkCount < bulk.count {
            bulk[bulkCount].flushAtEndOfTick()
            bulkCount += 1
            if pace.isOver(configuration, wasLong: true), !isLast { break }
        }
        bulk.removeFirst(bulkCount)
    }

    /// - Returns: Whether the time for it is over.
    private func flushDue(_ pace: inout TickPace, isLast: Bool) -> Bool {
        while let channel = due.popLast() {
            if channel.hasBulkOutput {
                bulk.append(channel)
            } else {
                channel.flushAtEndOfTick()
                if pace.isOver(configuration), !isLast { return true }
            }
        }
        return false
    }

    /// Makes due what was written to. O(channels), once for each.
    /// - Precondition: Nothing is due.
    private func takeWritten() {
        swap(&due, &written)
        due.reverse()
    }
}
