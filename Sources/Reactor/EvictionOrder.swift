/// The connections of one loop that may be closed to make place for others, those of least use first: by
/// slot, in three lists, each the longest-standing first.
///
///     silent   accepted ──▶ … ──▶ │oldest│  has sent no whole request yet
///     idle     answered ──▶ … ──▶ │oldest│  waits between two requests, or for its client to close
///     reserved accepted ──▶ … ──▶ │oldest│  as silent, in the administrators' reserve: closed only for others there
///
/// Links lie in one array beside the slots: no object is touched. Every call is O(1), apart from growing.
package struct EvictionOrder {
    package enum Rank: UInt8, Sendable {
        /// In no list.
        case none
        /// No whole request has come.
        case silent
        /// A request was answered, and no other has come.
        case idle
        /// In the administrators' reserve, and no whole request has come.
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

    package func count(of rank: Rank) -> Int {
        switch rank {
        case .silent: silent.count
        case .idle: idle.count
        case .reserved: reserved.count
        case .none: 0
        }
    }

    /// The slot of least use outside the reserve; nil when none may be closed.
    package var first: Int? { first(of: .silent) ?? first(of: .idle) }

    /// The longest-standing of a list; nil when it is empty.
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

    package func rank(of slot: Int) -> Rank {
        slot < links.count ? links[slot].rank : .none
    }

    /// Puts a slot last in a list, out of the one that it is in.
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

    /// Takes a slot out of its list, if it is in one.
    /// - Returns: What it was.
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
}
