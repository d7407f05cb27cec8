import PandoTree

/// The orders by paths below each child, in a tree of these paths.
struct OrderPaths {
    private var orders: Set<ChildOrder> = []
    private var children: [Key: OrderPaths] = [:]

    var isEmpty: Bool { orders.isEmpty && children.isEmpty }

    mutating func insert(_ order: ChildOrder) {
        for path in order.fields ?? [] { insert(order, path.keys[...]) }
    }

    private mutating func insert(_ order: ChildOrder, _ path: ArraySlice<Key>) {
        guard let key = path.first else {
            orders.insert(order)
            return
        }
        children[key, default: OrderPaths()].insert(order, path.dropFirst())
    }

    mutating func remove(_ order: ChildOrder) {
        for path in order.fields ?? [] { remove(order, path.keys[...]) }
    }

    private mutating func remove(_ order: ChildOrder, _ path: ArraySlice<Key>) {
        guard let key = path.first else {
            orders.remove(order)
            return
        }
        guard let index = children.index(forKey: key) else { return }
        children.values[index].remove(order, path.dropFirst())
        if children.values[index].isEmpty { children.remove(at: index) }
    }

    /// Calls `body` for each order by a path at which a node has data; for an order of several fields, once
    /// for each of them. O(paths that lead to orders, or the data's nodes on them if those are fewer).
    func forEachOrder(ofDataIn node: Node, _ body: (ChildOrder) -> Void) {
        guard !node.isEmpty else { return }
        for order in orders { body(order) }
        guard !children.isEmpty else { return }
        if node.children.count < children.count {
            node.children.forEach { key, child in
                children[key]?.forEachOrder(ofDataIn: child, body)
                return true
            }
        } else {
            for (key, below) in children { below.forEachOrder(ofDataIn: node[key], body) }
        }
    }

    /// For tests.
    func contains(_ order: ChildOrder, at path: Path) -> Bool {
        path.keys.reduce(Optional(self)) { $0?.children[$1] }?.orders.contains(order) ?? false
    }
}

extension ChildOrder {
    /// The paths below each child whose data decides; nil where it is the child itself, its key or priority.
    var fields: [Path]? {
        switch self {
        case .priority, .key, .value: nil
        case .child(let path): [path]
        case .compound(let paths): paths
        }
    }
}
