/// A dictionary that holds a bounded number of entries: when it is full, a new one takes the place of one
/// that was not asked for lately (second chance: a hand goes round, and passes whoever was asked for since it
/// last came by).
///
/// - Complexity: O(1) for everything; the hand passes ``stepLimit`` entries at most.
struct RecentTable<Key: Hashable, Value> {
    private struct Slot {
        var key: Key
        var value: Value
        var wasAskedFor = false
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
            slots[place].wasAskedFor = true
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
        for _ in 0..<Self.stepLimit where slots[hand].wasAskedFor {
            slots[hand].wasAskedFor = false
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
