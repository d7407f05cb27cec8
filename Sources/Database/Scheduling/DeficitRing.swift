/// Decides which key is served next, so that each key gets an equal share of the work: deficit round robin
/// (Shreedhar and Varghese, "Efficient Fair Queuing Using Deficit Round Robin", 1995). The cost of an item is
/// known only when it is done, so it is charged then, and a key whose item cost more than its credit waits
/// while the others catch up.
///
///     ring   ─▶ a (credit 3) ─▶ b (credit −40) ─▶ c (credit 0) ─┐      next: a, until its credit is used up; then c gets a
///            └──────────────────────────────────────────────────┘      quantum, and b one each round, until it is in credit
///     fresh  ─▶ c                                                      keys that have just come, the one with the most credit first
///
/// A key that comes with little to do does not wait for a whole round: between two turns of the ring, keys
/// that have just come have short turns first (as the new flows of FQ-CoDel, RFC 8290 §4.2), together for a
/// quantum, and then are keys of the ring. So the others keep at least half of the worker. Among the keys that
/// have just come, those that have caused the least work in this round are first: however many others come
/// and go, a key that asks for little waits for few of them. A key with a large debt does not count as one
/// that has just come.
///
/// Invariants: a key has a place in the ring while it is active, and until its turn in the round comes after
/// that, or its debt is small; credit is at most a quantum, so no key saves up turns; a debt is at most
/// ``debtLimit``.
struct DeficitRing<Key: Hashable> {
    private struct Place {
        var key: Key
        /// Work that the key may still cause in this round; below zero, what it owes to the others.
        var credit: Int
        var isActive: Bool
        /// It has just come, or has had nothing but short turns since and has little to do.
        var isFresh = false
        /// What it has left to do is little.
        var hasLittle = false
        var previous: Int32
        var next: Int32
    }

    private struct FreshPlace {
        let index: Int32
        /// When the key came.
        let credit: Int
        let number: Int

        func isBefore(_ other: FreshPlace) -> Bool {
            credit != other.credit ? credit > other.credit : number < other.number
        }
    }

    /// Work that a key may cause in one round.
    let quantum: Int
    /// Work that a fresh key may cause in its first turn.
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
    /// A heap of the places of fresh keys, and of some that have had a turn since or were removed.
    private var fresh: [FreshPlace] = []
    /// Keys that were fresh so far.
    private var freshCount = 0
    /// Keys that have something to do.
    private(set) var activeCount = 0

    /// - Parameters:
    ///   - quantum: In any unit of work; that of ``charge(_:to:)``. More than 0.
    ///   - debtLimit: In the same unit.
    init(quantum: Int, debtLimit: Int) {
        precondition(quantum > 0 && debtLimit >= 0)
        self.quantum = quantum
        freshQuantum = max(1, quantum / Self.freshShare)
        freshLeft = quantum
        self.debtLimit = debtLimit
    }

    /// So many keys that come at once have a turn within one quantum.
    private static var freshShare: Int { 8 }
    /// A key that owes more than so many quanta is not fresh when it comes.
    private static var freshDebtShare: Int { 16 }
    /// A key that has nothing to do when its turn comes, and owes fewer quanta, begins anew: one that asks for
    /// little at a time does not pile up a debt over many rounds.
    private static var forgivenDebtShare: Int { 8 }

    var isEmpty: Bool { activeCount == 0 }

    /// Keys with a place: the active ones, and those that have caused work in this round or are in debt.
    var keyCount: Int { placeOfKey.count }

    /// The key has something to do. O(log keys that have just come).
    mutating func activate(_ key: Key) {
        let index = placeOfKey[key] ?? insert(key)
        guard !places[Int(index)].isActive else { return }
        places[Int(index)].isActive = true
        activeCount += 1
        makeFresh(index)
    }

    /// The key has nothing to do at the moment. What it has used of its credit is remembered. O(1).
    mutating func deactivate(_ key: Key) {
        guard let place = placeOfKey[key], places[Int(place)].isActive else { return }
        activeCount -= 1
        if places[Int(place)].credit == quantum { return remove(place) }
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
        if freshTurnLeft != nil, let turn, places[Int(turn)].isActive, places[Int(turn)].hasLittle {
            makeFresh(turn)
        }
        turn = nil
        freshTurnLeft = nil
        if freshLeft > 0, let key = beginFreshTurn() { return key }
        freshLeft = quantum
        // One round with a quantum for each. Where all are still in debt, as many rounds at once as it takes.
        return goRound(rounds: 1) ?? beginFreshTurn() ?? goRound(rounds: roundsUntilCredit)
    }

    /// The key has caused so much work. O(1).
    /// - Parameter hasLittle: What it has left to do is little: it has short turns until it is done, as if it
    ///   had just come.
    mutating func charge(_ work: Int, to key: Key, hasLittle: Bool = false) {
        guard let place = placeOfKey[key] else { return }
        places[Int(place)].hasLittle = hasLittle
        if turn == place, let left = freshTurnLeft {
            freshTurnLeft = left - min(left, max(0, work))
            freshLeft -= min(freshLeft, max(0, work))
        }
        let credit = places[Int(place)].credit.subtractingReportingOverflow(max(0, work))
        places[Int(place)].credit = max(-debtLimit, credit.overflow ? .min : credit.partialValue)
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
        while let first = fresh.pop({ $0.isBefore($1) }) {
            let index = Int(first.index)
            // A place that was freed may be used again: then its key is fresh, too.
            guard places[index].isActive, places[index].isFresh else { continue }
            places[index].isFresh = false
            freshTurnLeft = freshQuantum
            turn = first.index
            return places[index].key
        }
        if fresh.capacity > Self.keptPlaceCount { fresh = [] }
        return nil
    }

    /// Unless it owes too much.
    private mutating func makeFresh(_ index: Int32) {
        let credit = places[Int(index)].credit
        guard credit / quantum > -Self.freshDebtShare else { return }
        places[Int(index)].isFresh = true
        freshCount += 1
        if fresh.count > 2 * activeCount + Self.keptPlaceCount { removeOutdatedFresh() }
        fresh.push(FreshPlace(index: index, credit: credit, number: freshCount)) { $0.isBefore($1) }
    }

    /// Removes the places that are not fresh any more, so that there are never many. O(fresh places).
    private mutating func removeOutdatedFresh() {
        var seen: Set<Int32> = []
        let old = exchange(&fresh, with: [])
        for place in old where places[Int(place.index)].isFresh && seen.insert(place.index).inserted {
            fresh.push(place) { $0.isBefore($1) }
        }
    }

    /// Goes on with the round, adding to each key's credit, until one may be served or all were seen.
    private mutating func goRound(rounds: Int) -> Key? {
        for _ in 0..<placeOfKey.count {
            let index = Int(current)
            // Unused credit does not accumulate.
            places[index].credit = min(quantum, places[index].credit + rounds * quantum)
            if !places[index].isActive, places[index].credit / quantum > -Self.forgivenDebtShare {
                // Makes the next place the current one.
                remove(current)
            } else if places[index].isActive, places[index].credit > 0 {
                places[index].isFresh = false
                turn = current
                return places[index].key
            } else {
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

    /// Gives the key a place, behind all others, with the credit of a round.
    private mutating func insert(_ key: Key) -> Int32 {
        let index = freePlaces.popLast() ?? Int32(places.count)
        var place = Place(key: key, credit: quantum, isActive: false, previous: index, next: index)
        if placeOfKey.isEmpty {
            current = index
        } else {
            place.next = current
            place.previous = places[Int(current)].previous
        }
        if Int(index) == places.count { places.append(place) } else { places[Int(index)] = place }
        places[Int(place.previous)].next = index
        places[Int(place.next)].previous = index
        placeOfKey[key] = index
        return index
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
        places[Int(index)].isFresh = false
        freePlaces.append(index)
        if placeOfKey.isEmpty {
            places.removeAll(keepingCapacity: places.count <= Self.keptPlaceCount)
            freePlaces.removeAll(keepingCapacity: places.count <= Self.keptPlaceCount)
            fresh.removeAll(keepingCapacity: fresh.capacity <= Self.keptPlaceCount)
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
                precondition(place.isActive || place.credit < quantum, "\(place.key) is kept for nothing")
                precondition(place.credit >= -debtLimit && place.credit <= quantum)
                seen += 1
                active += place.isActive ? 1 : 0
                index = place.next
            } while index != current && seen <= placeOfKey.count
        }
        precondition(seen == placeOfKey.count && active == activeCount, "keys are miscounted")
        let waiting = Set(fresh.map(\.index))
        precondition(placeOfKey.values.allSatisfy { !places[Int($0)].isFresh || waiting.contains($0) })
    }
}
