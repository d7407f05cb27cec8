/// A dictionary with a limited number of entries. A full one replaces an entry that was not read recently, by
/// the clock algorithm: a hand goes round, and skips entries that were read since it passed them last.
///
/// - Complexity: O(1) for everything. The hand skips at most ``stepLimit`` entries.
struct RecentTable<Key: Hashable, Value> {
    private struct Slot {
        var key: Key
        var value: Value
        var wasRead = false
    }

    private static var stepLimit: Int { 8 }

    private let limit: Int
    private var slots: [Slot] = []
    private var places: [Key: Int] = [:]
    private var hand = 0

    init(limit: Int) {
        self.limit = max(1, limit)
    }

    var count: Int { slots.count }

    subscript(key: Key) -> Value? {
        mutating get {
            guard let place = places[key] else { return nil }
            slots[place].wasRead = true
            return slots[place].value
        }
    }

    mutating func set(_ value: Value, for key: Key) {
        if let place = places[key] {
            slots[place].value = value
            return
        }
        guard slots.count >= limit else {
            places[key] = slots.count
            slots.append(Slot(key: key, value: value))
            return
        }
        for _ in 0..<Self.stepLimit where slots[hand].wasRead {
            slots[hand].wasRead = false
            advance()
        }
        places[slots[hand].key] = nil
        places[key] = hand
        slots[hand] = Slot(key: key, value: value)
        advance()
    }

    mutating func removeAll() {
        slots.removeAll(keepingCapacity: true)
        places.removeAll(keepingCapacity: true)
        hand = 0
    }

    private mutating func advance() {
        hand = hand + 1 < slots.count ? hand + 1 : 0
    }
}
