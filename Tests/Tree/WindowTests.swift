import PandoBytes
import PandoRandom
import PandoTree
import Testing

@Suite struct WindowTables {
    /// realtime §7.4: the selected children, in the query's order.
    @Test(
        arguments: [
            (Query(), #"{"b":1,"a":2,"c":{".value":3,".priority":1}}"#, ["a", "b", "c"], "everything"),
            (
                Query(limit: .init(count: 2, anchor: .first)), #"{"b":1,"a":2,"c":3}"#, ["a", "b"],
                "the first two"
            ),
            (
                Query(limit: .init(count: 2, anchor: .last)), #"{"b":1,"a":2,"c":3}"#, ["b", "c"],
                "the last two, still ascending"
            ),
            (
                Query(limit: .init(count: 5, anchor: .last)), #"{"b":1,"a":2}"#, ["a", "b"],
                "fewer than the limit"
            ),
            (
                Query(order: .child("x")),
                #"{"a":{"x":2},"b":{"y":1},"c":{"x":1},"d":{"x":"s"},"e":{"x":false},"f":5}"#,
                ["b", "f", "e", "c", "a", "d"], "absent first"
            ),
            (
                Query(order: .child("x"), start: Bound(value: .integer(5), key: .lowest, isInclusive: true)),
                #"{"a":{"x":5},"b":{"y":1},"c":{"x":4},"d":{"x":"s"}}"#, ["a", "d"],
                "a start leaves the absent out"
            ),
            (
                Query(order: .child("x"), end: Bound(value: .integer(5), key: .highest, isInclusive: true)),
                #"{"a":{"x":5},"b":{"y":1},"c":{"x":4},"d":{"x":"s"}}"#, ["b", "c", "a"], "an end does not"
            ),
            (
                Query(
                    order: .child("x"), start: Bound(value: .empty, key: .lowest, isInclusive: true),
                    end: Bound(value: .empty, key: .highest, isInclusive: true)),
                #"{"a":{"x":5},"b":{"y":1},"c":{"x":false},"d":7}"#, ["b", "d"],
                "equalTo(null): exactly those without"
            ),
            (
                Query(
                    order: .value, start: Bound(value: .integer(1), key: .key("b"), isInclusive: true),
                    end: Bound(value: .integer(1), key: .key("d"), isInclusive: true)),
                #"{"a":1,"b":1,"c":1,"d":1.0,"e":1}"#, ["b", "c", "d"], "keys break ties"
            ),
            (
                Query(
                    order: .value, start: Bound(value: .integer(1), key: .key("b"), isInclusive: false),
                    end: Bound(value: .integer(1), key: .key("d"), isInclusive: false)),
                #"{"a":1,"b":1,"c":1,"d":1.0,"e":1}"#, ["c"], "the exact pair is excluded"
            ),
            (
                Query(
                    order: .key, start: Bound(value: .empty, key: .key("9"), isInclusive: true),
                    end: Bound(value: .empty, key: .key("a"), isInclusive: false)),
                #"{"2":1,"9":1,"10":1,"a":1,"b":1}"#, ["9", "10"], "keys in key order"
            ),
            (
                Query(
                    order: .key, start: Bound(value: .empty, key: .key("2"), isInclusive: false),
                    limit: .init(count: 2, anchor: .first)),
                #"{"1":1,"2":1,"9":1,"10":1,"a":1}"#, ["9", "10"], "two after the second"
            ),
            (
                Query(
                    order: .key, end: Bound(value: .empty, key: .key("9"), isInclusive: true),
                    limit: .init(count: 2, anchor: .last)), #"{"1":1,"2":1,"9":1,"10":1}"#, ["2", "9"],
                "two up to the third"
            ),
            (
                Query(order: .key, start: Bound(value: .empty, key: .highest, isInclusive: true)),
                #"{"a":1}"#, [], "after everything"
            ),
            (
                Query(
                    order: .key, end: Bound(value: .empty, key: .lowest, isInclusive: true),
                    limit: .init(count: 1, anchor: .last)), #"{"a":1}"#, [], "before everything"
            ),
            (
                Query(order: .priority),
                #"{"a":{".value":1,".priority":"x"},"b":{".value":1,".priority":10},"c":{".value":1,".priority":9},"d":1}"#,
                ["d", "c", "b", "a"], "by priority"
            ),
            (
                Query(order: .value),
                #"{"a":{".value":2,".priority":1},"b":1,"c":{"x":0},"d":"s","e":false}"#,
                ["e", "b", "a", "d", "c"], "by value, whatever the priority"
            ),
            (Query(limit: .init(count: 1, anchor: .first)), "5", [], "a leaf has no children"),
            (Query(limit: .init(count: 1, anchor: .first)), "null", [], "nor has nothing"),
        ] as [(Query, String, [Key], String)])
    func fills(query: Query, json: String, keys: [Key], reason: String) throws {
        let window = Window(query, over: try node(json))
        #expect(window.entries.map(\.key) == keys, "\(reason)")
        #expect(window.isEmpty == keys.isEmpty)
        #expect(window.node.children.entries.map(\.key) == keys.sorted(), "\(reason)")
        window.checkInvariants()
        window.node.children.checkInvariants()
    }

    @Test func resultHasNoPriorityOfTheNode() throws {
        let tree = try node(#"{".priority":7,"a":{".value":1,".priority":2},"b":{"c":{"d":1}}}"#)
        #expect(
            Window(Query(limit: .init(count: 9, anchor: .first)), over: tree).node.description
                == #"{"a":{".value":1,".priority":2},"b":{"c":{"d":1}}}"#)
    }

    /// §7.5: writes, and how they change a window.
    @Test func fullWindowExcludesTheLastChild() throws {
        var tree = try node(#"{"a":1,"b":2}"#)
        var window = Window(Query(limit: .init(count: 2, anchor: .last)), over: tree)
        let change = Follower.write(.integer(3), at: "c", to: &tree, window: &window)
        #expect(change.left == ["a"] && change.entered.map(\.key) == ["c"] && change.changed.isEmpty)
        // Outside the window: no change.
        #expect(Follower.write(.integer(9), at: "a", to: &tree, window: &window).isEmpty)
        // One leaves, an excluded one enters.
        let next = Follower.write(.empty, at: "c", to: &tree, window: &window)
        #expect(
            next.left == ["c"] && next.entered.map(\.key) == ["a"]
                && next.entered.map(\.node) == [.integer(9)])
    }

    @Test func childLeavesWhenItsValueChanges() throws {
        var tree = try node(#"{"a":{"n":1},"b":{"n":2},"c":{"n":3}}"#)
        var window = Window(Query(order: .child("n"), limit: .init(count: 2, anchor: .first)), over: tree)
        let change = Follower.write(.integer(10), at: "a/n", to: &tree, window: &window)
        #expect(change.left == ["a"] && change.entered.map(\.key) == ["c"] && change.changed.isEmpty)
        #expect(window.entries.map(\.key) == ["b", "c"])
        // A change deep inside a child that stays.
        let inside = Follower.write(.boolean(true), at: "b/x/y", to: &tree, window: &window)
        #expect(inside.changed.map(\.key) == ["b"] && inside.left.isEmpty && inside.entered.isEmpty)
        // No change.
        #expect(Follower.write(.boolean(true), at: "b/x/y", to: &tree, window: &window).isEmpty)
    }
}

enum Follower {
    static func write(_ new: Node, at path: Path, to tree: inout Node, window: inout Window) -> Window.Update
    {
        let (key, old) = (path[0], tree)
        tree.set(new, at: path)
        return window.update([.init(key: key, old: old.children[key], new: tree.children[key])], in: tree)
    }
}

@Suite struct WindowsAgainstAModel {
    private struct Maker {
        var trees: TreeMaker
        var generator: SeededGenerator {
            get { trees.generator }
            set { trees.generator = newValue }
        }

        init(seed: Int) {
            trees = TreeMaker(generator: SeededGenerator(seed: seed))
            trees.keys = (0..<12).map { Key(index: $0) } + ["a", "b", "-K", "x"]
            trees.maxWidth = 10
        }

        mutating func bound() -> Bound? {
            guard generator.one(in: 2) else { return nil }
            let value = generator.pick(
                [
                    .empty, .boolean(true), .integer(-1), .integer(0), .integer(2), .number(0.5), .string(""),
                    .string("x"),
                ] as [Node])
            let key: BoundKey = generator.pick([
                .lowest, .highest, .key(generator.pick(trees.keys)), .key("5"),
            ])
            return Bound(value: value, key: key, isInclusive: generator.one(in: 2))
        }

        mutating func query() -> Query {
            let order: ChildOrder = generator.pick([
                .priority, .key, .value, .child("1"), .child("a"), .child("1/2"),
            ])
            let limit: Query.Limit? =
                generator.one(in: 3)
                ? nil
                : .init(
                    count: Int.random(in: 1...6, using: &generator), anchor: generator.pick([.first, .last]))
            return Query(order: order, start: bound(), end: bound(), limit: limit)
        }
    }

    /// §7.4, written as simply as possible.
    private func naive(_ query: Query, _ node: Node) -> [Key] {
        func isInside(_ pair: (value: Node, key: Key)) -> Bool {
            func order(_ bound: Bound) -> Int {
                let byValue = query.order == .key ? 0 : Query.compareIndexValues(pair.value, bound.value)
                return byValue != 0 ? byValue : BoundKey.compare(.key(pair.key), bound.key)
            }
            if let start = query.start, order(start) < 0 || order(start) == 0 && !start.isInclusive {
                return false
            }
            if let end = query.end, order(end) > 0 || order(end) == 0 && !end.isInclusive { return false }
            return true
        }
        let inside = node.children.entries.map { (value: query.indexValue(of: $0.node), key: $0.key) }.filter(
            isInside
        )
        .sorted { query.compare($0, $1) < 0 }.map(\.key)
        guard let limit = query.limit else { return inside }
        return limit.anchor == .first ? Array(inside.prefix(limit.count)) : Array(inside.suffix(limit.count))
    }

    @Test(arguments: 0..<24) func windowFollowsWrites(seed: Int) {
        for round in 0..<25 {
            var maker = Maker(seed: seed * 100 + round)
            var tree = maker.trees.tree()
            let query = maker.query()
            // Half of the windows find their children by an index.
            func index() -> KeptIndex? {
                guard round % 2 == 0, query.order != .key else { return nil }
                return KeptIndex(ordering: tree.children, by: query.order)
            }
            var window = Window(IndexedQuery(query, by: index()), over: tree)
            var client = window.node
            for step in 0..<25 {
                let comment = Comment("seed \(seed * 100 + round), step \(step), \(query)")
                // One write, or a multi-path one.
                let before = tree
                let replacesAll = maker.generator.one(in: 25)
                if replacesAll {
                    tree = maker.trees.tree()
                } else {
                    tree = maker.trees.changed(tree, writes: 1...(maker.generator.one(in: 4) ? 6 : 1))
                }
                let change: Window.Update
                if replacesAll && maker.generator.one(in: 2) {
                    change = window.replace(with: tree, by: index())
                } else {
                    let keys = Set(before.children.entries.map(\.key) + tree.children.entries.map(\.key))
                    var changes: [ChildChange] = []
                    for key in keys.sorted().shuffled(using: &maker.generator)
                    where before.children[key] != tree.children[key] {
                        changes.append(.init(key: key, old: before.children[key], new: tree.children[key]))
                    }
                    // Every third window leaves it to others to find the children that it lacks.
                    let visitedCount = round % 3 == 0 ? 0 : Int.max
                    change = window.update(changes, in: tree, by: index(), visitingAtMost: visitedCount)
                }
                var expected = naive(query, tree)
                if window.lacksChildren {
                    // Perhaps those that it lacked are gone since: that is not known before others have
                    // looked.
                    if round % 3 != 0 || window.entries.count > expected.count {
                        Issue.record("\(comment): it lacks none of \(expected)")
                    }
                    let count = window.entries.count
                    expected =
                        query.limit?.anchor == .first ? Array(expected.prefix(count)) : expected.suffix(count)
                }
                if window.entries.map(\.key) != expected {
                    Issue.record(
                        "\(comment): \(window.entries.map(\.key)) instead of \(expected) of \(tree)")
                    return
                }
                if window.entries.contains(where: { $0.node != tree.children[$0.key] }) {
                    Issue.record("\(comment): stale")
                }
                check(change, &client, window, comment)
                guard window.lacksChildren, maker.generator.one(in: 3) else { continue }
                let completion = window.complete(from: Window(query, over: tree))
                if window.entries.map(\.key) != naive(query, tree) || window.lacksChildren {
                    Issue.record("\(comment): it still lacks children")
                }
                check(completion, &client, window, comment)
            }
        }
    }

    /// The update, applied as one merge (§7.5), gives the window, and has no more than is needed.
    private func check(
        _ change: Window.Update, _ client: inout Node, _ window: Window, _ comment: Comment
    ) {
        for key in change.left {
            if client.children[key].isEmpty { Issue.record("\(comment): \(key) left and was not there") }
            client.set(.empty, at: Path([key]))
        }
        for entry in change.entered {
            if !client.children[entry.key].isEmpty {
                Issue.record("\(comment): \(entry.key) entered and was there")
            }
            client.set(entry.node, at: Path([entry.key]))
        }
        for entry in change.changed {
            if client.children[entry.key].isEmpty || client.children[entry.key] == entry.node {
                Issue.record("\(comment): \(entry.key) did not change")
            }
            client.set(entry.node, at: Path([entry.key]))
        }
        window.checkInvariants()
        if client != window.node { Issue.record("\(comment): client \(client), window \(window.node)") }
    }

    /// A limit with more children than are sorted at once.
    @Test(arguments: [1, 2, 50, 999, 1000, 1001, 5000]) func largeObjects(limit: Int) {
        var generator = SeededGenerator(seed: limit)
        let entries = (0..<1000).map {
            Children.Entry(key: Key(index: $0), node: .integer(Int64.random(in: 0..<300, using: &generator)))
        }
        let node = Node.object(Children(ascending: entries))
        for anchor in [Query.Anchor.first, .last] {
            for order in [ChildOrder.value, .key] {
                let query = Query(order: order, limit: .init(count: limit, anchor: anchor))
                #expect(Window(query, over: node).entries.map(\.key) == naive(query, node))
            }
        }
    }
}
