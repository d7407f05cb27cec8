/// The channels of a loop that were written to in this tick: each is flushed once, at its end.
///
///     prompt   the client has sent something lately, and probably waits    first
///     others   listeners, mostly                                           then
///     bulk     much output is unsent                                       last
///
/// Each kind has a share of the tick of its own (bulk channels what the one before leaves of its share, and
/// one channel at least), so a reply does not wait for pushes to thousands of listeners, nor these for
/// replies.
///
/// Confined to the loop. A class, because what is called back adds to the list.
final class FlushList {
    private let configuration: LoopConfiguration
    /// When the tick began, modulo 2^32. Here, because to reach the time of the loop costs a channel a
    /// retain.
    var milliseconds: UInt32 = 0
    private let prompt = FlushQueue(.prompt)
    private let others = FlushQueue(.others)
    private let bulk = FlushQueue(.bulk)

    init(_ configuration: LoopConfiguration) {
        self.configuration = configuration
    }

    var isEmpty: Bool { prompt.count == 0 && others.count == 0 && bulk.count == 0 }

    /// Adds a channel, unless it is in the list where it belongs.
    func append(_ channel: Pollable) {
        guard channel.flushQueues.isDisjoint(with: [.prompt, .bulk]) else { return }
        if channel.isPrompt {
            prompt.append(channel)
        } else if !channel.flushQueues.contains(.others) {
            others.append(channel)
        }
    }

    func removeAll() {
        prompt.removeAll()
        others.removeAll()
        bulk.removeAll()
    }

    /// Flushes channels, those of each kind until `tickShare` has passed; at least one of each. The rest is
    /// flushed in the next tick: each before those of its kind that are written to later.
    ///
    /// What is written meanwhile, for example by `channelDidDrain`, is flushed in the next tick, too:
    /// otherwise a peer that reads fast enough could keep the loop here.
    /// - Parameter isLast: There is no next tick: all are flushed that were written to before.
    func flush(isLast: Bool) {
        guard !isEmpty else { return }
        let (promptCount, otherCount) = (prompt.count, others.count)
        var pace = flush(promptCount, of: prompt, isLast: isLast)
        if otherCount > 0 { pace = flush(otherCount, of: others, isLast: isLast) }
        var isOver = false
        // Those that come in the two calls above are flushed, too; a flush itself adds none here.
        while !isOver, let channel = bulk.popFirst() {
            guard channel.isFlushDue else { continue }
            channel.flushAtEndOfTick()
            isOver = pace.isOver(configuration, wasLong: true) && !isLast
        }
    }

    /// Flushes channels that have little unsent output; the others become bulk.
    /// - Parameter count: Channels in the queue that may be flushed in this tick.
    /// - Returns: How long it took.
    private func flush(_ count: Int, of queue: FlushQueue, isLast: Bool) -> TickPace {
        // The clock is read where there are many: to send takes ten microseconds for each, or more.
        let isLong = count > TickPace.uncheckedLimit
        var pace = TickPace(began: isLong ? configuration.clock() : nil)
        for _ in 0..<count {
            guard let channel = queue.popFirst() else { break }
            guard channel.isFlushDue else { continue }
            if channel.hasBulkOutput {
                if !channel.flushQueues.contains(.bulk) { bulk.append(channel) }
            } else {
                channel.flushAtEndOfTick()
                if pace.isOver(configuration), !isLast { break }
            }
        }
        return pace
    }
}

/// Channels in the order in which they came. A class, because a channel that is flushed may add to its queue.
private final class FlushQueue {
    private let place: FlushQueues
    /// Those before ``first`` were removed.
    private var channels: [Pollable?] = []
    private var first = 0

    init(_ place: FlushQueues) {
        self.place = place
    }

    var count: Int { channels.count - first }

    /// - Precondition: The channel is not in this queue.
    func append(_ channel: Pollable) {
        assert(!channel.flushQueues.contains(place))
        channel.flushQueues.insert(place)
        channels.append(channel)
    }

    func removeAll() {
        while let _ = popFirst() {}
    }

    /// O(1) on average.
    func popFirst() -> Pollable? {
        guard first < channels.count else { return nil }
        let channel = channels[first].take()
        channel?.flushQueues.remove(place)
        first += 1
        if first == channels.count {
            channels.removeAll(keepingCapacity: true)
            first = 0
        } else if first >= Self.compactionCount, first * 2 > channels.count {
            // Where some are always left: what was removed takes no more space than what is left.
            channels.removeFirst(first)
            first = 0
        }
        return channel
    }

    private static let compactionCount = 1024
}
