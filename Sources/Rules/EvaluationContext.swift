import PandoBytes
import PandoTree

/// What an expression sees (rules §3): the request's scope, and where the cascade stands.
///
/// Always true: `level` is at most the number of keys, and `newData` and the `data` kept here are those of
/// the node at `level`.
struct EvaluationContext {
    let auth: AuthVariable?
    let now: Double
    /// The tree before the request: `root`, and where `data` is found.
    let before: Node
    /// The tree as a write would leave it; nothing for a read.
    let after: Node
    /// Nil outside reads, and for a plain one.
    private let query: Query?
    private let isRead: Bool
    /// The location, and possibly more below it.
    private(set) var keys: [Key]
    /// How many of the keys lie above the node whose rules are asked.
    private(set) var level = 0
    private var newData: Node
    private var data: Node?

    /// At the root, on the way to `path`.
    init(reading path: Path, _ query: Query?, in scope: RuleScope) {
        self.init(path.keys, after: .empty, scope, query, isRead: true)
    }

    /// At the root, on the way to nowhere yet.
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

    /// `newData` at the node whose rules are asked.
    var here: Node { newData }

    /// To the root, on the way to another path.
    mutating func start(to path: Path) {
        keys = path.keys
        restart()
    }

    /// Back to the root.
    mutating func restart() {
        level = 0
        newData = after
        data = nil
    }

    /// One key down the path.
    mutating func descend() {
        newData = newData[keys[level]]
        data = nil
        level += 1
    }

    /// To a child of the last key's node, and back by ``leave(_:)``.
    mutating func enter(_ key: Key, _ node: Node) {
        keys.append(key)
        newData = node
        data = nil
        level += 1
    }

    /// Back to the parent, which is `node`.
    mutating func leave(_ node: Node) {
        keys.removeLast()
        newData = node
        data = nil
        level -= 1
    }

    /// The ancestor of the rule's node at a depth, or that node itself.
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

    /// The node at some location.
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

    /// §3.2. A plain read orders by nothing; outside reads all is null.
    func queryValue(_ property: QueryProperty) -> RuleValue {
        guard isRead else { return .null }
        guard let query else { return property.isFlag ? .boolean(false) : .null }
        switch property {
        case .orderByKey: return .boolean(query.index == .key)
        case .orderByValue: return .boolean(query.index == .value)
        case .orderByPriority: return .boolean(query.index == .priority)
        case .orderByChild:
            if case .child(let path) = query.index { return .string(Text(path.wireText)) }
            return .null
        case .startAt: return query.value(of: query.start)
        case .endAt: return query.value(of: query.end)
        case .equalTo: return query.equalTo
        case .limitToFirst: return query.limit(.first)
        case .limitToLast: return query.limit(.last)
        }
    }
}

extension Query {
    /// What a bound stands at: a key under the key index, else a value. `startAfter` and `endBefore` count as
    /// `startAt` and `endAt`.
    fileprivate func value(of bound: Bound?) -> RuleValue {
        guard let bound else { return .null }
        guard index == .key else { return RuleValue(bound.value) }
        if case .key(let key) = bound.key { return .string(key.text) }
        return .null
    }

    /// The one value of a range that holds no other.
    fileprivate var equalTo: RuleValue {
        guard let start, let end, start.isInclusive, end.isInclusive else { return .null }
        if index == .key { return start.key == end.key ? value(of: start) : .null }
        // A bound behind all children of its value (`startAfter`) excludes the value.
        guard start.key != .highest, end.key != .lowest, start.value == end.value else { return .null }
        return value(of: start)
    }

    fileprivate func limit(_ anchor: Anchor) -> RuleValue {
        guard let limit, limit.anchor == anchor else { return .null }
        return .number(Double(limit.count))
    }
}
