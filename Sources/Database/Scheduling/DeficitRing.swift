/// Decides which key is served next, so that each key gets an equal share of the work: deficit round robin
/// (Shreedhar and Varghese, "Efficient Fair Queuing Using Deficit Round Robin", 1995). A key is a flow in one
/// ring of ``FairScheduler``, a group of flows in the other. The cost of an item is
/// known only when it is done, so it is charged then, and a key whose item cost more than its credit waits
/// while the others catch up.
///
///     ring   ─▶ a (credit 3) ─▶ b (credit −40) ─▶ c (credit 0) ─┐      next: a, until its credit is used up; then c gets a
///            └──────────────────────────────────────────────────┘      quantum, and b one each round, until it is in credit
///     fresh  ─▶ d (credit 10) ─▶ e (credit 7)                          a short turn each, in the order in which they came
///
/// A key that comes with little to do does not wait for a whole round. It is *fresh*, as the new flows of
/// FQ-CoDel (RFC 8290 §4.2): between two turns of the ring, fresh keys have short turns, together for a
/// quantum, so that the keys of the ring get about half of the work. A key that has few items left is
/// fresh again after its turn, and its items make no debt unless one of them costs more than a quantum.
/// (Where very many keys share the work, a quantum for each round is less than a client with light items
/// needs.) Any other key waits for its turn in the ring. So does a key that is in debt when it comes again:
/// keys with heavy items do not delay those with light ones.
///
/// Invariants: a key has a place in the ring while it is active or in debt; an inactive key never has credit,
/// so no key saves up turns; a debt is at most ``debtLimit``.
struct DeficitRing<Key: Hashable> {
    private struct Place {
        var key: Key
        /// Work that the key may still cause in this round; below zero, what it owes to the others.
        var credit: Int
        var isActive: Bool
        /// It has just come, or has few items left, and owes nothing.
        var isFresh = true
        /// ``fresh`` has an entry for the place; perhaps since before its key was served in the ring.
        var isInFreshList = false
        var hasFewItems = false
        var previous: Int32
        var next: Int32
    }

    /// Work that a key may cause in one round.
    let quantum: Int
    /// Work that a fresh key may cause in one short turn.
    private let freshQuantum: Int
    /// The most that one key can owe, however large its piece of work was.
    let debtLimit: Int

    private var places: [Place] = []
    private var freePlaces: [Int32] = []
    private var placeOfKey: [Key: Int32] = [:]
    /// The place whose turn in the round is next or under way; meaningless while the ring is empty.
    private var current: Int32 = 0
    /// The place whose turn is under way: ``current``, or that of a fresh key.
    private var turn: Int32?
    /// Work that is left of the turn of a fresh key; nil while the turn is one of the ring.
    private var freshTurnLeft: Int?
    /// Work that fresh keys may cause before the next turn of the ring.
    private var freshLeft: Int
    /// Places of fresh keys, from ``firstFresh`` on, and of some that have had a turn since or were removed.
    private var fresh: [Int32] = []
    private var firstFresh = 0
    /// Keys that have something to do.
    private(set) var activeCount = 0

    /// - Parameters:
    ///   - quantum: In any unit of work; that of ``charge(_:to:)``. More than 0.
    ///   - debtLimit: In the same unit.
    init(quantum: Int, debtLimit: Int) {
        precondition(quantum > 0 && debtLimit >= 0)
        self.quantum = quantum
        freshQuantum = max(1, quantum / Self.freshTurnCount)
        freshLeft = quantum
        self.debtLimit = debtLimit
    }

    /// Short turns in one quantum.
    private static var freshTurnCount: Int { 8 }

    var isEmpty: Bool { activeCount == 0 }

    /// Keys with a place: the active ones, and those in debt.
    var keyCount: Int { placeOfKey.count }

    /// The key has something to do. O(1).
    mutating func activate(_ key: Key) {
        if let place = placeOfKey[key] {
            guard !places[Int(place)].isActive else { return }
            places[Int(place)].isActive = true
        } else {
            insert(key)
        }
        activeCount += 1
    }

    /// The key has nothing to do at the moment. What it owes is remembered. O(1).
    mutating func deactivate(_ key: Key) {
        guard let place = placeOfKey[key], places[Int(place)].isActive else { return }
        activeCount -= 1
        if places[Int(place)].credit >= 0 { return remove(place) }
        places[Int(place)].isActive = false
        places[Int(place)].isFresh = false
    }

    /// The key whose turn it is; nil when none is active.
    /// - Complexity: O(1) while the key at hand has credit, else O(keys); amortised over a round, O(1).
    mutating func next() -> Key? {
        guard activeCount > 0 else { return nil }
        if let key = keyInCredit { return key }
        // Now, so that new keys are behind it.
        if turn == current { current = places[Int(current)].next }
        if let turn { keepFresh(turn) }
        turn = nil
        freshTurnLeft = nil
        if freshLeft > 0, let key = beginFreshTurn() { return key }
        freshLeft = quantum
        // One round with a quantum for each. Where all are still in debt, as many rounds at once as it takes.
        return goRound(rounds: 1) ?? beginFreshTurn() ?? goRound(rounds: roundsUntilCredit)
    }

    /// The key has caused so much work. O(1).
    /// - Parameter hasFewItems: Whether it has few items left: then it is fresh again after its turn,
    ///   and this work makes no debt unless it is more than a quantum.
    mutating func charge(_ work: Int, to key: Key, hasFewItems: Bool = false) {
        guard let place = placeOfKey[key] else { return }
        places[Int(place)].hasFewItems = hasFewItems
        if turn == place, let left = freshTurnLeft {
            freshTurnLeft = left - min(left, max(0, work))
            freshLeft -= min(freshLeft, max(0, work))
        }
        let credit = places[Int(place)].credit.subtractingReportingOverflow(max(0, work))
        let isLight = hasFewItems && work <= quantum
        let lowest = isLight ? min(0, places[Int(place)].credit) : -debtLimit
        places[Int(place)].credit = max(lowest, credit.overflow ? .min : credit.partialValue)
    }

    // MARK: Rounds

    /// The key whose turn is under way, if it may go on.
    private var keyInCredit: Key? {
        guard let turn, freshTurnLeft != 0 else { return nil }
        let place = places[Int(turn)]
        return place.isActive && place.credit > 0 ? place.key : nil
    }

    /// Gives a turn to the first fresh key; nil where there is none.
    private mutating func beginFreshTurn() -> Key? {
        while firstFresh < fresh.count {
            let index = fresh[firstFresh]
            firstFresh += 1
            places[Int(index)].isInFreshList = false
            // A place that was freed may be used again: then its key is fresh, too.
            guard places[Int(index)].isActive, places[Int(index)].isFresh else { continue }
            places[Int(index)].isFresh = false
            guard places[Int(index)].credit >= 0 else { continue }
            freshTurnLeft = freshQuantum
            turn = index
            return places[Int(index)].key
        }
        fresh.removeAll(keepingCapacity: fresh.capacity <= Self.keptPlaceCount)
        firstFresh = 0
        return nil
    }

    /// The turn of a key is over: it has a short one behind the other fresh keys, if it has few items left,
    /// and no debt.
    private mutating func keepFresh(_ index: Int32) {
        let place = places[Int(index)]
        guard place.isActive, !place.isFresh, place.hasFewItems, place.credit >= 0 else { return }
        places[Int(index)].isFresh = true
        appendFresh(index)
    }

    /// Notes a fresh key.
    private mutating func appendFresh(_ index: Int32) {
        guard !places[Int(index)].isInFreshList else { return }
        places[Int(index)].isInFreshList = true
        // Removes what is used up before the array grows.
        if fresh.count == fresh.capacity, firstFresh * 2 >= fresh.count {
            fresh.removeFirst(firstFresh)
            firstFresh = 0
        }
        fresh.append(index)
    }

    /// Goes on with the round, adding to each key's credit, until one may be served or all were seen.
    private mutating func goRound(rounds: Int) -> Key? {
        for _ in 0..<placeOfKey.count {
            let index = Int(current)
            let credit = places[index].credit
            if places[index].isActive {
                // Unused credit does not accumulate.
                places[index].credit = min(quantum, credit + rounds * quantum)
                places[index].isFresh = false
                if places[index].credit > 0 {
                    turn = current
                    return places[index].key
                }
                current = places[index].next
            } else if credit + rounds * quantum >= 0 {
                remove(current)
            } else {
                places[index].credit = credit + rounds * quantum
                current = places[index].next
            }
        }
        return nil
    }

    /// Rounds until the active key that owes least is in credit. At least 1.
    private var roundsUntilCredit: Int {
        var most = Int.min
        for place in places where place.isActive && place.next >= 0 { most = max(most, place.credit) }
        return max(1, -most / quantum + 1)
    }

    // MARK: Places

    /// Gives the key a place, with the credit of a round.
    private mutating func insert(_ key: Key) {
        let index = freePlaces.popLast() ?? Int32(places.count)
        var place = Place(key: key, credit: quantum, isActive: true, previous: index, next: index)
        if placeOfKey.isEmpty {
            current = index
        } else {
            // Behind all others.
            place.next = current
            place.previous = places[Int(current)].previous
        }
        if Int(index) == places.count {
            places.append(place)
        } else {
            place.isInFreshList = places[Int(index)].isInFreshList
            places[Int(index)] = place
        }
        places[Int(place.previous)].next = index
        places[Int(place.next)].previous = index
        placeOfKey[key] = index
        appendFresh(index)
    }

    private mutating func remove(_ index: Int32) {
        let place = places[Int(index)]
        places[Int(place.previous)].next = place.next
        places[Int(place.next)].previous = place.previous
        if current == index { current = place.next }
        if turn == index { turn = nil }
        placeOfKey[place.key] = nil
        // A free place has no neighbours.
        places[Int(index)].next = -1
        places[Int(index)].isActive = false
        freePlaces.append(index)
        if placeOfKey.isEmpty {
            places.removeAll(keepingCapacity: places.count <= Self.keptPlaceCount)
            freePlaces.removeAll(keepingCapacity: places.count <= Self.keptPlaceCount)
            fresh.removeAll(keepingCapacity: fresh.capacity <= Self.keptPlaceCount)
            firstFresh = 0
            freshTurnLeft = nil
            freshLeft = quantum
        }
    }

    /// Larger arrays are freed when they are unused.
    private static var keptPlaceCount: Int { 4096 }

    /// Traps where the ring and the table of keys contradict each other. O(keys); for tests.
    func checkInvariants() {
        var seen = 0
        var active = 0
        var index = current
        if !placeOfKey.isEmpty {
            repeat {
                let place = places[Int(index)]
                precondition(placeOfKey[place.key] == index, "\(place.key) lost its place")
                precondition(
                    places[Int(place.next)].previous == index, "the ring is torn behind \(place.key)")
                precondition(place.isActive || place.credit < 0, "\(place.key) is kept for nothing")
                precondition(place.credit >= -debtLimit && place.credit <= quantum)
                seen += 1
                active += place.isActive ? 1 : 0
                index = place.next
            } while index != current && seen <= placeOfKey.count
        }
        precondition(seen == placeOfKey.count && active == activeCount, "keys are miscounted")
        let waiting = Set(fresh[firstFresh...])
        precondition(waiting.count == fresh.count - firstFresh, "a place is twice among the fresh")
        precondition(waiting.count == places.count { $0.isInFreshList }, "a fresh place is not noted")
        precondition(placeOfKey.values.allSatisfy { !places[Int($0)].isFresh || waiting.contains($0) })
    }
}
