import CCounting
import Glibc
import PandoBytes
import PandoEngine
import PandoRules
import PandoTree
import PandoWire
import Testing

@testable import PandoDatabase
@testable import PandoStorage

/// What the databases do between two messages is bounded, however many children a request is about. Counted
/// and not timed: each node that is visited, copied or freed counts some references up or down, or allocates.
///
/// Each operation is done with `few` children and with `many`. A step that visits all of them would count
/// four times as much.
///
/// The runtime's functions are replaced while calls are counted, which other threads would not survive: so it
/// runs in a process of its own, with `PANDO_COUNTS_CALLS` set (`deploy/test`).
@Suite(.serialized, .enabled(if: countsCalls)) struct StallTests {
    /// Above every limit up to which something is done at once: 16 384 nodes are compared, 8192 children.
    private static let few = 12_000
    private static let many = 48_000
    /// Runtime calls that any small step takes in a debug build, so that small counts are not compared.
    private static let allowance = 20_000

    struct Operation: CustomTestStringConvertible, Sendable {
        let testDescription: String
        var rules: String?
        /// Messages before the operation. They are not measured.
        var before: @Sendable (_ count: Int) -> [DatabaseMessage] = { [put(1, "list", children($0))] }
        /// Whether indexes are built before the operation.
        var buildsIndexes = true
        var messages: @Sendable (_ count: Int) -> [DatabaseMessage]
        /// The children of the list afterwards.
        var childCount: @Sendable (_ count: Int) -> Int = { $0 }
        /// What another client writes each time when something was prepared, before it is used; nil for
        /// nothing.
        var meanwhile: (@Sendable (_ round: Int) -> DatabaseMessage)?
    }

    // MARK: Messages

    private static func key(_ number: Int) -> Key { Key(unchecked: Text("k\(1_000_000 + number)")) }

    /// So many children `{n, s}`.
    private static func children(_ count: Int, adding offset: Int = 0) -> Node {
        .children(
            Children(
                ascending: (0..<count).map { number in
                    .init(
                        key: key(number),
                        node: .object(
                            Children(ascending: [
                                .init(key: "n", node: .integer(Int64(number &* 7919 % 100_003 + offset))),
                                .init(key: "s", node: .string(Text("text \(number)"))),
                            ])))
                }))
    }

    private static func request(_ slot: UInt32, _ action: Action, byteCount: Int) -> DatabaseMessage {
        .request(Bench.session(slot), Request(number: 1, action: action), .anonymous, byteCount: byteCount)
    }

    private static func put(_ slot: UInt32, _ path: Path, _ node: Node) -> DatabaseMessage {
        request(
            slot, .put(Write(Target(path), Draft(node))),
            byteCount: node.isLeaf ? 100 : node.weight(upTo: 16 << 20))
    }

    /// So many numbers, each of which is a server value.
    private static func values(_ count: Int, _ value: ServerValue) -> Draft {
        Draft(
            .children(Children(ascending: (0..<count).map { .init(key: key($0), node: .integer(0)) })),
            placeholders: (0..<count).map { .init(target: Target(Path([key($0)])), value: value) }, depth: 1)
    }

    private static func merge(_ slot: UInt32, _ base: Path, _ entries: [(Path, Node)]) -> DatabaseMessage {
        request(
            slot, .merge(base, entries.map { Write(Target(base.appending($0.0.keys)), Draft($0.1)) }),
            byteCount: 30 * entries.count)
    }

    /// New values for all children, one by one.
    private static func entries(_ count: Int) -> [(Path, Node)] {
        children(count, adding: 5).children.entries.map { (Path([$0.key]), $0.node) }
    }

    private static func get(_ slot: UInt32, _ path: Path, _ query: Query?) -> DatabaseMessage {
        request(slot, .get(path, query ?? Query()), byteCount: 100)
    }

    private static func listen(_ slot: UInt32, _ path: Path, _ query: Query? = nil) -> DatabaseMessage {
        request(
            slot, .listen(Listen(path: path, query: query, tag: query == nil ? nil : 7, hash: "")),
            byteCount: 100)
    }

    private static let top = Query(order: .child("n"), limit: .init(count: 10, anchor: .last))
    /// All children but a few.
    private static func from(_ number: Int) -> Query {
        Query(
            order: .child("n"),
            start: Bound(value: .integer(Int64(number)), key: .lowest, isInclusive: true))
    }
    private static let declared = #"{"rules":{".read":true,".write":true,"list":{".indexOn":["n","s"]}}}"#
    private static let validated = #"""
        {"rules":{".read":true,".write":true,"list":{"$k":{".validate":
          "newData.hasChildren(['n','s']) && newData.child('n').isNumber() && !data.exists()"}}}}
        """#

    // MARK: Operations

    static let operations: [Operation] = [
        Operation(testDescription: "put of many", before: { _ in [] }) { [put(1, "list", children($0))] },
        Operation(
            testDescription: "put above many listens",
            before: { _ in
                [listen(2, "list")] + (0..<20).map { listen(3, Path(["list", key($0)])) }
            }
        ) { [put(1, "list", children($0))] },
        Operation(testDescription: "put of as many") { [put(1, "list", children($0, adding: 1))] },
        Operation(testDescription: "put of the same") { [put(1, "list", children($0))] },
        Operation(
            testDescription: "put of the same, above a listen to the list",
            before: {
                [put(1, "a/list", children($0)), listen(2, "a/list")]
            }
        ) {
            [
                put(1, "a", .object(Children(ascending: [.init(key: "list", node: children($0))]))),
                put(1, "list", children($0)),
            ]
        },
        Operation(testDescription: "put of many timestamps") {
            [request(1, .put(Write(Target("list"), values($0, .timestamp))), byteCount: 1 << 20)]
        },
        Operation(
            testDescription: "put of many increments",
            before: { [request(1, .put(Write(Target("list"), values($0, .timestamp))), byteCount: 1 << 20)] }
        ) {
            [
                request(
                    1, .put(Write(Target("list"), values($0, .increment(.integer(1))))), byteCount: 1 << 20)
            ]
        },
        Operation(
            testDescription: "merge of one path, of many increments",
            rules: #"{"rules":{".read":true,".write":true,"list":{"$k":{".validate":"newData.isNumber()"}}}}"#
        ) {
            let draft = values($0, .increment(.integer(1)))
            return [request(1, .merge(.root, [Write(Target("list"), draft)]), byteCount: 1 << 20)]
        },
        Operation(testDescription: "put of as many, with indexes", rules: declared) {
            [put(1, "list", children($0, adding: 1))]
        },
        Operation(
            testDescription: "put of as many, with a window",
            before: {
                [put(1, "list", children($0)), listen(2, "list", top)]
            }
        ) { [put(1, "list", children($0, adding: 1))] },
        Operation(
            testDescription: "put of as many, with a window and no index",
            before: {
                [put(1, "list", children($0)), listen(2, "list", top)]
            }, buildsIndexes: false
        ) { [put(1, "list", children($0, adding: 1))] },
        Operation(
            testDescription: "put above, with a window",
            before: {
                [put(1, "list", children($0)), listen(2, "list", top)]
            }
        ) {
            [put(1, "", .object(Children(ascending: [.init(key: "list", node: children($0, adding: 1))])))]
        },
        Operation(
            testDescription: "removal", messages: { _ in [put(1, "list", .empty)] }, childCount: { _ in 0 }),
        Operation(
            testDescription: "removal, with indexes", rules: declared,
            messages: { _ in [put(1, "list", .empty)] },
            childCount: { _ in 0 }),
        Operation(
            testDescription: "removal, with listens and windows",
            before: { [put(1, "list", children($0)), listen(2, "list"), listen(3, "list", top)] },
            messages: { _ in [put(1, "list", .empty)] }, childCount: { _ in 0 }),
        Operation(
            testDescription: "removal by a merge that sets a priority",
            before: { [put(1, "list", children($0)), listen(2, "list")] },
            messages: { _ in
                [merge(1, "", [("list", .empty), ("other/.priority", .integer(1)), ("other", .integer(1))])]
            },
            childCount: { _ in 0 }),
        Operation(testDescription: "merge of many paths") { [merge(1, "list", entries($0))] },
        Operation(testDescription: "merge of many paths into nothing", before: { _ in [] }) {
            [merge(1, "list", entries($0))]
        },
        Operation(
            testDescription: "merge of many paths, with listens, a window and indexes", rules: declared,
            before: {
                [
                    put(1, "list", children($0)), listen(2, "list"), listen(3, "list", top),
                    listen(1, Path(["list", key(3)])),
                ]
            }
        ) { [merge(1, "list", entries($0))] },
        Operation(
            testDescription: "merge of many paths that are not below one",
            before: {
                [put(1, "a/list", children($0)), put(1, "list", children($0)), listen(2, "a")]
            }
        ) {
            [
                merge(
                    1, "",
                    entries($0).map { (Path(["a", "list"]).appending($0.0.keys), $0.1) } + [
                        ("list", children($0))
                    ])
            ]
        },
        Operation(
            testDescription: "removal by a merge of many paths",
            messages: { [merge(1, "list", (0..<$0).map { (Path([key($0)]), .empty) })] },
            childCount: { _ in 0 }),
        Operation(
            testDescription: "merge of many paths under rules that validate each", rules: validated,
            before: { _ in [] }
        ) { [merge(1, "list", entries($0))] },
        Operation(
            testDescription: "put of as many, with many windows of nearly all",
            before: { [put(1, "list", children($0))] + (0..<30).map { listen(2, "list", from($0)) } }
        ) { [put(1, "list", children($0, adding: 1))] },
        Operation(
            testDescription: "merge of many paths, with many windows of nearly all",
            before: { [put(1, "list", children($0))] + (0..<30).map { listen(2, "list", from($0)) } }
        ) { [merge(1, "list", entries($0))] },
        Operation(
            testDescription: "merge of many paths, each of which others may have replaced",
            messages: { [merge(1, "list", entries($0))] },
            meanwhile: { put(2, Path(["list", key($0)]), .integer(1)) }),
        Operation(testDescription: "get of all") { _ in [get(1, "list", nil)] },
        Operation(testDescription: "get of ten, without index", buildsIndexes: false) { _ in
            [get(1, "list", top)]
        },
        Operation(testDescription: "get of ten, with an index", rules: declared) { _ in [get(1, "list", top)]
        },
        Operation(testDescription: "get of half of them, with an index", rules: declared) { _ in
            [
                get(
                    1, "list",
                    Query(
                        order: .child("n"),
                        start: Bound(value: .integer(50_000), key: .lowest, isInclusive: true)))
            ]
        },
        Operation(testDescription: "listens to ten, without index", buildsIndexes: false) { _ in
            [listen(1, "list", top), listen(2, "list", top)]
        },
        Operation(
            testDescription: "a window loses a member while its index is built",
            before: {
                [put(1, "list", children($0)), listen(2, "list", top)]
            }, buildsIndexes: false,
            messages: { count in
                let highest = (0..<count).max { $0 &* 7919 % 100_003 < $1 &* 7919 % 100_003 }!
                return [put(1, Path(["list", key(highest)]), .empty)]
            }, childCount: { $0 - 1 }),
        Operation(
            testDescription: "put under rules that validate each child", rules: validated, before: { _ in [] }
        ) {
            [put(1, "list", children($0))]
        },
        Operation(testDescription: "new rules", rules: declared) { _ in
            [
                .rules([
                    "demo": try! Ruleset(
                        loading: Array(declared.replacing(#"["n","s"]"#, with: #"["n"]"#).utf8))
                ])
            ]
        },
        Operation(testDescription: "transaction") {
            [
                request(
                    1,
                    .transaction(
                        Write(Target("list"), Draft(.boolean(true))), expectedHash: Text(children($0).hash),
                        wantsCurrentValue: true), byteCount: 100)
            ]
        } childCount: { _ in
            0
        },
        Operation(
            testDescription: "end of a session that had queued many",
            before: {
                [
                    put(1, "list", children($0)),
                    request(
                        3, .onDisconnectPut(Write(Target("list"), Draft(children($0, adding: 1)))),
                        byteCount: 1 << 20),
                ]
            }
        ) { _ in [.closed(Bench.session(3))] },
    ]

    // MARK: Operations on many listens

    /// Listens of one session, in place of children.
    private static let (fewListens, manyListens) = (3000, 12_000)

    private static func listens(_ slot: UInt32, _ count: Int, depth: Int = 2) -> [DatabaseMessage] {
        (0..<count).map { number in
            listen(slot, Path(["l"] + (2..<depth).map { _ in key(number) } + [key(number)]))
        }
    }

    private static let conditional =
        #"{"rules":{".write":true,"l":{".read":"auth == null || auth.uid == 'a'"},"q":{".read":true}}}"#
    private static func identity(_ slot: UInt32, _ uid: String) -> DatabaseMessage {
        .credentialChanged(Bench.session(slot), Credential(authVariable: Text("{\"uid\":\"\(uid)\"}")))
    }

    /// onDisconnect writes of one session: three quarters of `count`, which is within the limit.
    private static func queued(_ slot: UInt32, _ count: Int) -> [DatabaseMessage] {
        (0..<count * 3 / 4).map { number in
            request(
                slot, .onDisconnectPut(Write(Target(Path(["l", key(number)])), Draft(.integer(1)))),
                byteCount: 100)
        }
    }

    static let listenOperations: [Operation] = [
        Operation(
            testDescription: "end of a session that had queued many writes", before: { queued(2, $0) },
            messages: { _ in [.closed(Bench.session(2))] }, childCount: { _ in 0 }),
        Operation(
            testDescription: "end of a session that had queued many writes, under rules, with listens",
            rules: validated.replacing("list", with: "l").replacing(
                "newData.hasChildren(['n','s']) && newData.child('n').isNumber() && ", with: ""),
            before: { queued(2, $0) + [listen(3, "l"), listen(1, "l", top)] },
            messages: { _ in [.closed(Bench.session(2))] }, childCount: { _ in 0 },
            meanwhile: { round in put(3, "elsewhere", .integer(Int64(round))) }),
        Operation(
            testDescription: "change of credential", rules: conditional, before: { listens(2, $0) },
            messages: { _ in [identity(2, "a")] }, childCount: { _ in 0 }),
        Operation(
            testDescription: "change of credential that revokes all", rules: conditional,
            before: { listens(2, $0) }, messages: { _ in [identity(2, "b")] }, childCount: { _ in 0 }),
        Operation(
            testDescription: "new rules, with many listens", rules: conditional, before: { listens(2, $0) },
            messages: { _ in [.rules(["demo": try! Ruleset(loading: Array(declared.utf8))])] },
            childCount: { _ in 0 }),
        Operation(
            testDescription: "new rules that revoke all", rules: conditional, before: { listens(2, $0) },
            messages: { _ in
                [.rules(["demo": try! Ruleset(loading: Array(#"{"rules":{".read":false}}"#.utf8))])]
            },
            childCount: { _ in 0 }),
        Operation(
            testDescription: "listen and unlisten above many", before: { listens(2, $0) },
            messages: { _ in
                [listen(2, "l"), request(2, .unlisten("l", nil, tag: nil), byteCount: 100)]
            }, childCount: { _ in 0 }),
        Operation(
            testDescription: "unlisten above many that began below it",
            before: { [listen(2, "l")] + listens(2, $0) },
            messages: { _ in [request(2, .unlisten("l", nil, tag: nil), byteCount: 100)] },
            childCount: { _ in 0 }),
        Operation(
            testDescription: "put above many listens of one session", before: { listens(2, $0) },
            messages: { [put(1, "l", children($0))] }, childCount: { _ in 0 }),
        Operation(
            testDescription: "merge of two paths above many listens of several sessions",
            before: { listens(2, $0) + listens(3, $0) },
            messages: { [merge(1, "", [("l", children($0)), ("m", .integer(1))])] }, childCount: { _ in 0 }),
        Operation(
            testDescription: "put by a session above its own many listens, with a window",
            before: { listens(2, $0) + [listen(3, "l", top)] },
            messages: { [put(2, "l", children($0))] }, childCount: { _ in 0 }),
        Operation(
            testDescription: "a session that lags catches up with a write above its many listens",
            before: { listens(2, $0) + [.lagging(Bench.session(2)), put(1, "l", children($0))] },
            messages: { _ in [.caughtUp(Bench.session(2))] }, childCount: { _ in 0 }),
        Operation(
            testDescription: "end of a session with many listens", before: { listens(2, $0) },
            messages: { _ in [.closed(Bench.session(2))] }, childCount: { _ in 0 }),
        Operation(
            testDescription: "end of a session with many deep listens", before: { listens(2, $0, depth: 30) },
            messages: { _ in [.closed(Bench.session(2))] }, childCount: { _ in 0 }),
    ]

    @Test(arguments: listenOperations) func noStepVisitsAllListens(operation: Operation) throws {
        let (few, many) = (
            try Self.worstStep(of: operation, Self.fewListens),
            try Self.worstStep(of: operation, Self.manyListens)
        )
        #expect(
            many <= few * 3 / 2 + Self.allowance,
            "\(operation.testDescription): \(few) calls for \(Self.fewListens) listens, \(many) for \(Self.manyListens)"
        )
    }

    @Test(arguments: operations) func noStepVisitsAllChildren(operation: Operation) throws {
        let (few, many) = (
            try Self.worstStep(of: operation, Self.few), try Self.worstStep(of: operation, Self.many)
        )
        #expect(
            many <= few * 3 / 2 + Self.allowance,
            "\(operation.testDescription): \(few) calls for \(Self.few) children, \(many) for \(Self.many)")
    }

    /// - Returns: Runtime calls of the largest step.
    private static func worstStep(of operation: Operation, _ count: Int) throws -> Int {
        // While calls are counted, a copy of a short string traps in the runtime; and how many operations a
        // busy machine makes slow is no part of the count.
        let bench = try Bench(directory: nil, slowThreshold: .max)
        bench.process((1...3).map { Bench.open($0) })
        if let rules = operation.rules {
            bench.process([.rules(["demo": try Ruleset(loading: Array(rules.utf8))])])
        }
        for message in operation.before(count) {
            bench.process([message])
            bench.work { job in
                if case .index = job.work { operation.buildsIndexes } else { true }
            }
        }
        _ = bench.takeMessages()
        var worst = 0
        var hashes = HashMemo()
        var round = 0
        func step(_ message: DatabaseMessage) {
            var batch = [message]
            repeat {
                pando_counting_start()
                bench.host.receive(&batch)
                let counts = pando_counting_stop()
                worst = max(worst, Int(counts.allocations + counts.retains + counts.releases))
            } while bench.host.hasWork
        }
        // No message is held here while it is processed: what it frees counts.
        for index in operation.messages(count).indices {
            step(operation.messages(count)[index])
            while true {
                var jobs: [PreparationJob] = []
                bench.preparationJobs.drain(into: &jobs)
                while let job = jobs.popLast() { job.perform(&hashes) }
                var results: [DatabaseMessage] = []
                bench.mailbox.drain(into: &results)
                guard !results.isEmpty else { break }
                while !results.isEmpty {
                    if let meanwhile = operation.meanwhile {
                        step(meanwhile(round))
                        round += 1
                    }
                    step(results.removeFirst())
                }
            }
        }
        bench.released.values.removeAll()
        let root = bench.host.processor.databases["demo"]!.engine.root
        #expect(
            root["list" as Key].children.count == operation.childCount(count), "\(operation.testDescription)")
        return worst
    }
}

/// Whether this process has no other tests.
private var countsCalls: Bool { unsafe getenv("PANDO_COUNTS_CALLS") != nil }
