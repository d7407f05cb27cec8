/// The connections of one loop that may be closed so that others can be accepted, by slot: three lists, each
/// with the connection that has been in it longest at its head.
///
///     silent   accepted ──▶ … ──▶ │oldest│  has sent no complete request yet
///     idle     answered ──▶ … ──▶ │oldest│  waits between two requests, or for its client to close
///     reserved accepted ──▶ … ──▶ │oldest│  as silent, in the administrators' reserve: closed only for others there
///
/// The links are in one array, indexed by slot: no connection's object is accessed. Every call is O(1),
/// except that ``append(_:as:)`` may grow the array.
package struct EvictionOrder {
    /// The list that a slot is in.
    package enum Rank: UInt8, Sendable {
        /// In no list.
        case none
        /// It has sent no complete request.
        case silent
        /// Its request was answered, and it has sent no other.
        case idle
        /// In the administrators' reserve, and it has sent no complete request.
        case reserved
    }

    /// Neighbours in a list; `end` where there is none.
    private struct Link {
        var next = EvictionOrder.end
        var previous = EvictionOrder.end
        var rank = Rank.none
    }

    private struct List {
        var first = EvictionOrder.end
        var last = EvictionOrder.end
        var count = 0
    }

    private static let end: Int32 = -1

    private var links: ContiguousArray<Link> = []
    private var silent = List()
    private var idle = List()
    private var reserved = List()

    package init() {}

    package var silentCount: Int { silent.count }
    package var idleCount: Int { idle.count }
    package var reservedCount: Int { reserved.count }

    /// How many slots are in a list; 0 for ``Rank/none``.
    package func count(of rank: Rank) -> Int {
        switch rank {
        case .silent: silent.count
        case .idle: idle.count
        case .reserved: reserved.count
        case .none: 0
        }
    }

    /// The slot to close first outside the reserve: silent before idle. nil when none may be closed.
    package var first: Int? { first(of: .silent) ?? first(of: .idle) }

    /// The slot that has been in a list longest; nil when the list is empty.
    package func first(of rank: Rank) -> Int? {
        let first =
            switch rank {
            case .silent: silent.first
            case .idle: idle.first
            case .reserved: reserved.first
            case .none: Self.end
            }
        return first == Self.end ? nil : Int(first)
    }

    /// The list that a slot is in.
    package func rank(of slot: Int) -> Rank {
        slot < links.count ? links[slot].rank : .none
    }

    /// Moves a slot to the end of a list, from the list that it is in.
    /// - Parameter rank: Not ``Rank/none``.
    package mutating func append(_ slot: Int, as rank: Rank) {
        while links.count <= slot { links.append(Link()) }
        remove(slot)
        switch rank {
        case .silent: Self.append(Int32(slot), to: &silent, &links)
        case .idle: Self.append(Int32(slot), to: &idle, &links)
        case .reserved: Self.append(Int32(slot), to: &reserved, &links)
        case .none: preconditionFailure("a slot without a rank is removed")
        }
        links[slot].rank = rank
    }

    /// Removes a slot from its list, if it is in one.
    /// - Returns: The list that it was in.
    @discardableResult
    package mutating func remove(_ slot: Int) -> Rank {
        let rank = rank(of: slot)
        switch rank {
        case .none: return .none
        case .silent: Self.remove(Int32(slot), from: &silent, &links)
        case .idle: Self.remove(Int32(slot), from: &idle, &links)
        case .reserved: Self.remove(Int32(slot), from: &reserved, &links)
        }
        links[slot] = Link()
        return rank
    }

    private static func append(_ slot: Int32, to list: inout List, _ links: inout ContiguousArray<Link>) {
        links[Int(slot)].previous = list.last
        if list.last == end { list.first = slot } else { links[Int(list.last)].next = slot }
        list.last = slot
        list.count += 1
    }

    private static func remove(_ slot: Int32, from list: inout List, _ links: inout ContiguousArray<Link>) {
        let link = links[Int(slot)]
        if link.previous == end { list.first = link.next } else { links[Int(link.previous)].next = link.next }
        if link.next == end {
            list.last = link.previous
        } else {
            links[Int(link.next)].previous = link.previous
        }
        list.count -= 1
    }

    /// Checks all invariants, for tests. Traps if one is violated. O(slots).
    func checkInvariants() {
        var listedCount = 0
        for (list, rank) in [(silent, Rank.silent), (idle, .idle), (reserved, .reserved)] {
            var (slot, previous, count) = (list.first, Self.end, 0)
            while slot != Self.end {
                let link = links[Int(slot)]
                precondition(link.rank == rank, "a slot is in another list than its rank says")
                precondition(link.previous == previous, "a list's links disagree")
                (previous, slot, count) = (slot, link.next, count + 1)
            }
            precondition(list.last == previous, "a list's last slot is wrong")
            precondition(list.count == count, "a list's count is wrong")
            listedCount += count
        }
        precondition(links.count { $0.rank != .none } == listedCount, "a slot with a rank is in no list")
    }
}
