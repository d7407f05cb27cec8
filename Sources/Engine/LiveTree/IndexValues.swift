import PandoTree

/// The values by which altered children are ordered, before and after a write. They are computed once for
/// each index, however many windows use it. So a window that a write does not touch costs a few comparisons.
struct IndexValues {
    private typealias Value = (key: Key, value: Node)

    private let altered: [ChildChange]
    /// The values of each index that a window has asked for.
    private var known: [(order: ChildOrder, values: [Value])] = []

    init(of altered: [ChildChange]) {
        self.altered = altered
    }

    /// Whether one of the children was in the window, is in it, or has to enter it.
    mutating func mayTouch(_ window: Window) -> Bool {
        values(by: window.query.order).contains { window.admits($0.value, $0.key) }
    }

    private mutating func values(by order: ChildOrder) -> [Value] {
        if let last = known.last, last.order == order { return last.values }
        if let found = known.first(where: { $0.order == order }) { return found.values }
        var values: [Value] = []
        for child in altered {
            if !child.old.isEmpty { values.append((child.key, order.value(of: child.old))) }
            if !child.new.isEmpty { values.append((child.key, order.value(of: child.new))) }
        }
        if known.count < Self.knownLimit { known.append((order, values)) }
        return values
    }

    private static let knownLimit = 16
}
