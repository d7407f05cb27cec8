/// How many numbers there are among some values, their exact sum, the least and the greatest.
package struct NumberSummary: Sendable {
    package private(set) var count = 0
    package private(set) var sum = ExactSum()
    /// `.empty` where there is no number.
    package private(set) var minimum = Node.empty
    package private(set) var maximum = Node.empty

    package init() {}

    /// Adds a value; one that is no number is ignored.
    package mutating func add(_ value: Node) {
        guard value.isNumber else { return }
        count &+= 1
        sum.add(value)
        extend(to: value, value)
    }

    /// Adds all values of another summary.
    package mutating func add(_ other: NumberSummary) {
        guard other.count > 0 else { return }
        count &+= other.count
        sum.add(other.sum)
        extend(to: other.minimum, other.maximum)
    }

    private mutating func extend(to low: Node, _ high: Node) {
        if minimum.isEmpty || Self.compare(low, minimum) < 0 { minimum = low }
        if maximum.isEmpty || Self.compare(high, maximum) > 0 { maximum = high }
    }

    /// By value as doubles, as everywhere (§8.5); integers that are the same double by their own value. So
    /// the result does not depend on the order in which numbers come.
    private static func compare(_ left: Node, _ right: Node) -> Int {
        let order = Query.compareIndexValues(left, right)
        if order != 0 { return order }
        switch (left, right) {
        case (.integer(let a), .integer(let b)): return a < b ? -1 : a > b ? 1 : 0
        case (.integer, _): return -1
        case (_, .integer): return 1
        default: return 0
        }
    }
}

extension Node {
    /// Whether it is a number without a priority.
    var isNumber: Bool {
        switch self {
        case .integer, .double: true
        case .empty, .boolean, .string, .object, .prioritized: false
        }
    }
}

extension ChildOrder {
    /// The number by which a field that is aggregated counts; `.empty` for any other value.
    package func number(of child: Node) -> Node {
        let value = value(of: child)
        return value.isNumber ? value : .empty
    }
}
