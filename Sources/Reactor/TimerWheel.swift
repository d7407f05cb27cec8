import PandoTime

//  A hierarchical timer wheel: schedule and cancel are O(1), whatever the number of timers.
//
//  Time is divided into ticks. A timer for tick T is at the level of the highest 6-bit digit in which T
//  differs from `elapsed`, in the slot with the number of this digit of T:
//
//      elapsed   0…0  01  17  63          level 0: one slot per tick
//      T         0…0  01  18  05          level 1: one slot per 64 ticks   ← differs here: level 1, slot 18
//                      2   1   0          level 2: one slot per 4096 …
//
//  When `elapsed` reaches the start of a slot above level 0, the slot's timers are placed again, at lower
//  levels. Eleven levels of six bits hold every 64-bit tick, so no deadline is out of range.
//
//  Always true: a timer in a slot has a tick later than `elapsed`, and its slot is later than the digit of
//  `elapsed` on that level. So the first occupied slot of the lowest occupied level is the next one to
//  expire.

/// Identifies a timer until it fires or is cancelled. Never used for another timer afterwards.
package struct TimerToken: Hashable, Sendable {
    fileprivate let index: Int32
    fileprivate let generation: UInt32
}

/// Timers with payloads; the caller gives the time. A timer expires in the first `advance(to:)` at or after
/// its deadline, rounded up to the next tick, never early.
package struct TimerWheel<Payload> {
    private struct Node {
        var payload: Payload?
        var tick: UInt64
        var generation: UInt32
        /// Neighbours in a circular list; a free node uses `next` for the free list.
        var next: Int32
        var previous: Int32
        /// level × 64 + slot, or one of the two values below.
        var place: Int16
    }

    private static var expiredPlace: Int16 { Int16(levelCount * 64) }
    private static var freePlace: Int16 { -1 }
    private static var levelCount: Int { 11 }
    private static var noIndex: Int32 { -1 }

    private let tickNanoseconds: UInt64
    /// Every timer up to and including this tick has expired.
    private var elapsed: UInt64
    private var nodes: [Node] = []
    private var firstFree = noIndex
    /// The first node of each slot's list; the last entry is the list of expired timers.
    private var heads: [Int32]
    /// For each level, a bit per slot: the slot has a timer.
    private var occupied: [UInt64]
    /// Timers that are scheduled, or expired and not yet popped.
    package private(set) var count = 0

    /// - Parameters:
    ///   - tick: The granularity; a deadline is rounded up to a multiple of it.
    ///   - now: The time at which the wheel starts.
    package init(tick: Duration = .milliseconds(8), now: MonotonicTime) {
        tickNanoseconds = max(1, tick.nanosecondCount)
        elapsed = now.nanoseconds / tickNanoseconds
        heads = Array(repeating: Self.noIndex, count: Self.levelCount * 64 + 1)
        occupied = Array(repeating: 0, count: Self.levelCount)
    }

    /// Adds a timer. A deadline in the past expires at the next tick, not among those that are being popped.
    /// O(1).
    package mutating func schedule(at deadline: MonotonicTime, _ payload: Payload) -> TimerToken {
        let rounding: UInt64 = deadline.nanoseconds % tickNanoseconds == 0 ? 0 : 1
        let tick = max(deadline.nanoseconds / tickNanoseconds + rounding, elapsed + 1)
        let index: Int32
        if firstFree != Self.noIndex {
            index = firstFree
            firstFree = nodes[Int(index)].next
            nodes[Int(index)].payload = payload
            nodes[Int(index)].tick = tick
        } else {
            index = Int32(nodes.count)
            nodes.append(
                Node(payload: payload, tick: tick, generation: 0, next: 0, previous: 0, place: Self.freePlace)
            )
        }
        place(index)
        count += 1
        return TimerToken(index: index, generation: nodes[Int(index)].generation)
    }

    /// Removes a timer. O(1).
    /// - Returns: The payload, or nil when the timer was popped or cancelled before.
    @discardableResult
    package mutating func cancel(_ token: TimerToken) -> Payload? {
        guard token.index >= 0, Int(token.index) < nodes.count,
            nodes[Int(token.index)].generation == token.generation,
            nodes[Int(token.index)].place != Self.freePlace
        else { return nil }
        unlink(token.index)
        return free(token.index)
    }

    /// A time not later than the next timer's: before it, `advance(to:)` expires nothing. nil without timers.
    package var nextExpiry: MonotonicTime? {
        if heads[Int(Self.expiredPlace)] != Self.noIndex { return MonotonicTime(nanoseconds: 0) }
        guard let (_, tick) = nextSlot else { return nil }
        let (nanoseconds, overflows) = tick.multipliedReportingOverflow(by: tickNanoseconds)
        return MonotonicTime(nanoseconds: overflows ? .max : nanoseconds)
    }

    /// Advances the time. Timers that expire wait for ``popExpired()``, in order of deadline and then of
    /// scheduling; until popped they can still be cancelled.
    package mutating func advance(to now: MonotonicTime) {
        let target = now.nanoseconds / tickNanoseconds
        while let (slot, tick) = nextSlot, tick <= target {
            elapsed = tick
            while heads[slot] != Self.noIndex {
                let index = heads[slot]
                unlink(index)
                if nodes[Int(index)].tick <= elapsed {
                    link(index, at: Self.expiredPlace)
                } else {
                    place(index)
                }
            }
        }
        elapsed = max(elapsed, target)
    }

    /// Removes the next expired timer.
    /// - Returns: Its payload; nil when none is left.
    package mutating func popExpired() -> Payload? {
        let index = heads[Int(Self.expiredPlace)]
        guard index != Self.noIndex else { return nil }
        unlink(index)
        return free(index)
    }

    /// Removes all timers. O(timers).
    package mutating func removeAll() {
        for index in nodes.indices where nodes[index].place != Self.freePlace {
            unlink(Int32(index))
            _ = free(Int32(index))
        }
    }

    /// The earliest occupied slot and the tick at which it begins.
    private var nextSlot: (place: Int, tick: UInt64)? {
        for level in 0..<Self.levelCount where occupied[level] != 0 {
            let slot = occupied[level].trailingZeroBitCount
            // The level's shift reaches 60 and the one above it 66: `>>` and `<<` give 0 there, as they
            // should.
            let shift = UInt64(6 * level)
            let base = (elapsed >> (shift + 6)) << (shift + 6)
            return (level * 64 + slot, base | UInt64(slot) << shift)
        }
        return nil
    }

    /// Links a node at the level and slot of its tick.
    private mutating func place(_ index: Int32) {
        let tick = nodes[Int(index)].tick
        let level = (63 - (tick ^ elapsed).leadingZeroBitCount) / 6
        let slot = Int(truncatingIfNeeded: tick >> UInt64(6 * level)) & 63
        link(index, at: Int16(level * 64 + slot))
    }

    private mutating func link(_ index: Int32, at place: Int16) {
        let head = heads[Int(place)]
        if head == Self.noIndex {
            heads[Int(place)] = index
            nodes[Int(index)].next = index
            nodes[Int(index)].previous = index
            if place != Self.expiredPlace { occupied[Int(place) / 64] |= 1 << UInt64(place & 63) }
        } else {
            let last = nodes[Int(head)].previous
            nodes[Int(index)].next = head
            nodes[Int(index)].previous = last
            nodes[Int(last)].next = index
            nodes[Int(head)].previous = index
        }
        nodes[Int(index)].place = place
    }

    private mutating func unlink(_ index: Int32) {
        let (next, previous) = (nodes[Int(index)].next, nodes[Int(index)].previous)
        let place = nodes[Int(index)].place
        if next == index {
            heads[Int(place)] = Self.noIndex
            if place != Self.expiredPlace { occupied[Int(place) / 64] &= ~(1 << UInt64(place & 63)) }
        } else {
            nodes[Int(previous)].next = next
            nodes[Int(next)].previous = previous
            if heads[Int(place)] == index { heads[Int(place)] = next }
        }
    }

    private mutating func free(_ index: Int32) -> Payload? {
        let payload = nodes[Int(index)].payload
        nodes[Int(index)].payload = nil
        nodes[Int(index)].generation &+= 1
        nodes[Int(index)].place = Self.freePlace
        nodes[Int(index)].next = firstFree
        firstFree = index
        count -= 1
        return payload
    }

    /// Checks all invariants, for tests. Traps if one is violated. O(timers).
    func checkInvariants() {
        var linkedCount = 0
        for place in heads.indices where heads[place] != Self.noIndex {
            var index = heads[place]
            repeat {
                let node = nodes[Int(index)]
                precondition(Int(node.place) == place, "a node is linked at another place than its own")
                precondition(node.payload != nil, "a linked node has no payload")
                precondition(nodes[Int(node.next)].previous == index, "a list's links disagree")
                if place == Int(Self.expiredPlace) {
                    precondition(node.tick <= elapsed, "a timer has expired early")
                } else {
                    precondition(node.tick > elapsed, "a timer in a slot is not later than the time")
                    let (level, slot) = (place / 64, place % 64)
                    precondition(
                        Int(truncatingIfNeeded: node.tick >> UInt64(6 * level)) & 63 == slot, "a wrong slot")
                    precondition(
                        Int(truncatingIfNeeded: elapsed >> UInt64(6 * level)) & 63 < slot,
                        "a slot is not later than the digit of the time")
                }
                linkedCount += 1
                index = node.next
            } while index != heads[place]
        }
        precondition(linkedCount == count, "the count is wrong")
        for level in occupied.indices {
            for slot in 0..<64 {
                let isOccupied = heads[level * 64 + slot] != Self.noIndex
                precondition(occupied[level] >> UInt64(slot) & 1 == (isOccupied ? 1 : 0), "a wrong bit")
            }
        }
    }
}
