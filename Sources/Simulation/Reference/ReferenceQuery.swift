/// The query of a filtered listen or read.
struct ReferenceQuery {
    enum Order: Equatable { case key, child(String) }

    var order: Order
    var isFromStart: Bool
    var limit: Int

    var json: String {
        let index =
            switch order {
            case .key: ".key"
            case .child(let name): name
            }
        return "{\"i\":\"\(index)\",\"l\":\(limit),\"vf\":\"\(isFromStart ? "l" : "r")\"}"
    }

    /// The children in the query window.
    func filter(_ value: Value) -> Value {
        guard case .object(let children) = value else { return .nothing }
        let sorted = children.sorted { left, right in
            let (one, two) = (rank(left.value), rank(right.value))
            return one != two ? one < two : left.key < right.key
        }
        let kept = isFromStart ? sorted.prefix(limit) : sorted.suffix(limit)
        return kept.isEmpty
            ? .nothing : .object(Dictionary(uniqueKeysWithValues: kept.map { ($0.key, $0.value) }))
    }

    /// Where a child stands: nothing, false, true, numbers, texts, objects (data model: the order of values).
    private func rank(_ child: Value) -> Rank {
        guard case .child(let name) = order else { return Rank(kind: 0) }
        return switch child[name] {
        case .nothing: Rank(kind: 0)
        case .boolean(let value): Rank(kind: value ? 2 : 1)
        case .number(let number): Rank(kind: 3, number: number)
        case .string(let text): Rank(kind: 4, text: text)
        case .object: Rank(kind: 5)
        }
    }

    private struct Rank: Comparable {
        var kind: Int
        var number = 0.0
        var text = ""

        static func < (left: Rank, right: Rank) -> Bool {
            if left.kind != right.kind { return left.kind < right.kind }
            return left.number != right.number ? left.number < right.number : left.text < right.text
        }
    }
}
