import PandoBytes
import PandoTree

/// The input of an expression (rules §3): the scope of the request, and the position of the cascade.
///
/// Always true: `level` is at most the number of keys, and the cached `newData` and `data` are those of the
/// node at `level`.
struct EvaluationContext {
    let auth: AuthVariable?
    let now: Double
    /// The tree before the request: `root`, and the source of `data`.
    let before: Node
    /// The tree after the write; empty for a read.
    let after: Node
    /// Nil for writes and for plain reads.
    private let query: Query?
    private let isRead: Bool
    /// The keys of the location, and perhaps of a location below it.
    private(set) var keys: [Key]
    /// The number of keys above the node whose rules are evaluated.
    private(set) var level = 0
    private var newData: Node
    private var data: Node?

    /// A read of `path`, positioned at the root.
    init(reading path: Path, _ query: Query?, in scope: RuleScope) {
        self.init(path.keys, after: .empty, scope, query, isRead: true)
    }

    /// A write, positioned at the root, without a path yet.
    init(writing after: Node, in scope: RuleScope) {
        self.init([], after: after, scope, nil, isRead: false)
    }

    private init(_ keys: [Key], after: Node, _ scope: RuleScope, _ query: Query?, isRead: Bool) {
        auth = scope.credential.auth
        now = Double(scope.milliseconds)
        before = scope.root
        self.after = after
        self.query = query
        self.isRead = isRead
        self.keys = keys
        newData = after
    }

    /// `newData` at the node whose rules are evaluated.
    var here: Node { newData }

    /// Moves to the root, with another path.
    mutating func start(to path: Path) {
        keys = path.keys
        restart()
    }

    /// Moves to the root.
    mutating func restart() {
        level = 0
        newData = after
        data = nil
    }

    /// Moves one key down the path.
    mutating func descend() {
        newData = newData[keys[level]]
        data = nil
        level += 1
    }

    /// Moves to a child of the last key's node. ``leave(_:)`` moves back.
    mutating func enter(_ key: Key, _ node: Node) {
        assert(level == keys.count, "the path leads on to another child")
        keys.append(key)
        newData = node
        data = nil
        level += 1
    }

    /// Moves back to the parent, which is `node`.
    mutating func leave(_ node: Node) {
        assert(level == keys.count, "a node below was not left")
        keys.removeLast()
        newData = node
        data = nil
        level -= 1
    }

    /// The keys that ``node(isAfter:depth:)`` looks up.
    func lookupCount(isAfter: Bool, depth: Int) -> Int {
        depth == level && (isAfter || data != nil) ? 0 : depth
    }

    /// The ancestor of the rule's node at a depth, or the node itself, in the tree before or after.
    mutating func node(isAfter: Bool, depth: Int) -> Node {
        if isAfter {
            if depth == level { return newData }
            return Self.node(in: after, keys, depth)
        }
        guard depth == level else { return Self.node(in: before, keys, depth) }
        if let data { return data }
        let node = Self.node(in: before, keys, depth)
        data = node
        return node
    }

    /// The node at any location, in the tree before or after.
    func node(isAfter: Bool, at keys: [Key], isMissing: Bool) -> Node {
        isMissing ? .empty : Self.node(in: isAfter ? after : before, keys, keys.count)
    }

    private static func node(in tree: Node, _ keys: [Key], _ count: Int) -> Node {
        var node = tree
        var depth = 0
        while depth < count, !node.isEmpty {
            node = node[keys[depth]]
            depth &+= 1
        }
        return node
    }

    // MARK: Query

    /// A property of `query` (§3.2). A plain read has no order; for writes all properties are null.
    func queryValue(_ property: QueryProperty) -> RuleValue {
        guard isRead else { return .null }
        guard let query else { return property.isFlag ? .boolean(false) : .null }
        switch property {
        case .orderByKey: return .boolean(query.order == .key)
        case .orderByValue: return .boolean(query.order == .value)
        case .orderByPriority: return .boolean(query.order == .priority)
        case .orderByChild:
            switch query.order {
            case .child, .compound: return query.order.declaredName.map { .string(Text($0)) } ?? .null
            case .key, .value, .priority: return .null
            }
        case .startAt: return query.value(of: query.start)
        case .endAt: return query.value(of: query.end)
        case .equalTo: return query.equalTo
        case .limitToFirst: return query.limit(.first)
        case .limitToLast: return query.limit(.last)
        }
    }
}

extension Query {
    /// The value of a bound: a key for the key index, otherwise a value. `startAfter` and `endBefore` count
    /// as `startAt` and `endAt`.
    fileprivate func value(of bound: Bound?) -> RuleValue {
        guard let bound else { return .null }
        if case .compound = order { return lastValue(of: bound).map { RuleValue($0) } ?? .null }
        guard order == .key else { return RuleValue(bound.value) }
        if case .key(let key) = bound.key { return .string(key.text) }
        return .null
    }

    /// The value of a range that contains only one; with an order of several fields, the one value that
    /// `where` fixes.
    fileprivate var equalTo: RuleValue {
        if case .compound = order { return equalValues.count == 1 ? RuleValue(equalValues[0]) : .null }
        guard let start, let end, start.isInclusive, end.isInclusive else { return .null }
        if order == .key { return start.key == end.key ? value(of: start) : .null }
        // A bound behind all children of its value (`startAfter`) excludes the value.
        guard start.key != .highest, end.key != .lowest, start.value == end.value else { return .null }
        return value(of: start)
    }

    fileprivate func limit(_ anchor: Anchor) -> RuleValue {
        guard let limit, limit.anchor == anchor else { return .null }
        return .number(Double(limit.count))
    }
}
