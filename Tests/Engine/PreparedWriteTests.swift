import PandoBytes
import PandoRandom
import PandoRules
import PandoTree
import Testing

@testable import PandoEngine

/// Writes that another thread has prepared on a snapshot: what is decided is the same as without.
@Suite struct PreparedWriteTests {
    /// Rules that read beside, above and below what is written.
    private static let validations = [
        "newData.child('n').isNumber()", "!data.exists()", "root.child('config/open').val() === true",
        "newData.parent().child('owner').val() === 'ann'",
        "root.child('users').child(newData.child('by').val()).exists()",
        "data.parent().parent().hasChildren(['config','users'])", "newData.child('n').val() <= now",
        "root.child('list').child($k).child('n').val() !== 3",
        "newData.parent().parent().child('config/open').exists()",
        "$k !== 'k3' || root.child('list/k1').exists()",
        "data.child('n').val() === newData.child('n').val() || true",
        "root.child(newData.child('by').val() + '/x/..').exists() || newData.hasChildren(['n'])",
    ]

    private static func rules(_ random: inout SeededGenerator) -> Access {
        let (list, child) = (random.pick(validations), random.pick(validations))
        let write = random.pick([
            "true", "root.child('config/open').exists()", "!data.child('lock').exists()",
        ])
        let text = #"""
            {"rules":{".read":true,"list":{".write":"\#(write)",
              ".validate":"\#(list.replacing("$k", with: "'k1'"))","$k":{".validate":"\#(child)"}}}}
            """#.replacing("''k1''", with: "'k1'")
        return .loaded(try! Ruleset(loading: Array(text.utf8)))
    }

    private static func child(_ random: inout SeededGenerator) -> Draft {
        var json = #"{"n":\#(Int.random(in: 0..<6, using: &random)),"by":"\#(random.pick(["ann", "bob"]))"}"#
        if random.chance(20) { json = "{}" }
        if random.chance(10) { json = #"{"n":{".sv":"timestamp"}}"# }
        return Draft(json)
    }

    private static func write(_ random: inout SeededGenerator) -> PandoEngine.Operation {
        func child() -> (Path, Draft) {
            (Path(["list", Key(unchecked: random.pick(["k1", "k2", "k3"]))]), Self.child(&random))
        }
        switch Int.random(in: 0..<4, using: &random) {
        case 0:
            let (path, draft) = child()
            return .put(Write(Target(path), draft))
        case 1:
            var keys = ["k1", "k2", "k3"]
            if random.chance(50) { keys.removeLast() }
            return .merge(
                base: "list",
                keys.map { Write(Target(Path(["list", Key(unchecked: Text($0))])), Self.child(&random)) })
        default:
            let members = ["k1", "k3"].map {
                #""\#($0)":{"n":\#(Int.random(in: 0..<6, using: &random)),"by":"ann"}"#
            }
            let owner = random.chance(60) ? #","owner":"ann""# : ""
            return .put(Write(Target("list"), Draft("{\(members.joined(separator: ","))\(owner)}")))
        }
    }

    /// What another client changes meanwhile.
    private static func disturbance(_ random: inout SeededGenerator) -> Write {
        let path = random.pick([
            "config/open", "users/ann", "users/bob", "list/k1/n", "list/k2", "list/lock", "list/owner",
            "beside/x", "config", "list",
        ])
        return Write(path, random.pick(["null", "true", "3", #""ann""#, #"{"open":true}"#]))
    }

    @Test(arguments: 0..<12) func decisionsAreThoseWithoutPreparation(seed: Int) {
        var random = SeededGenerator(seed: seed)
        var (adopted, refused, denied, permitted) = (0, 0, 0, 0)
        let held = Held(Engine(access: .open))
        for step in 0..<400 {
            if step % 20 == 0 { held.engine.access = Self.rules(&random) }
            let operation = Self.write(&random)
            let writes: [Write] =
                switch operation {
                case .put(let write): [write]
                case .merge(_, let writes): writes
                default: []
                }
            let time = Int64(step / 100)
            let readLimit = random.pick([1, 4, ReadLocations.standardLimit])
            let preparation = held.engine.preparation(
                for: writes, as: .anonymous, at: time, notingAtMost: readLimit)
            guard let preparation else {
                Issue.record("the rules decide")
                return
            }
            var prepared = preparation.perform()
            if random.chance(60) {
                for _ in 0..<Int.random(in: 1...2, using: &random) {
                    _ = held.engine.execute(
                        Command(
                            session: SessionID(2), credential: .admin, time: time + 1,
                            operation: .put(Self.disturbance(&random))))
                }
            }
            if random.chance(3) { held.engine.access = Self.rules(&random) }
            func isDenied() -> Bool {
                let command = Command(
                    session: SessionID(1), credential: .anonymous, time: prepared.time, operation: operation)
                if case .permissionDenied? = held.engine.decide(command).result { return true }
                return false
            }
            let isAdopted = held.engine.adopt(prepared)
            if !isAdopted || random.chance(20) {
                held.engine.discardPreparedWrite()
                prepared = held.engine.preparation(
                    for: writes, as: .anonymous, at: time + 1, following: prepared, notingAtMost: readLimit)!
                    .perform()
                let isAdoptedAgain = held.engine.adopt(prepared)
                #expect(isAdoptedAgain, "nothing has changed since: seed \(seed), step \(step)")
            }
            let withPreparation = isDenied()
            held.engine.discardPreparedWrite()
            #expect(withPreparation == isDenied(), "seed \(seed), step \(step): \(operation)")
            if isAdopted { adopted += 1 } else { refused += 1 }
            if withPreparation { denied += 1 } else { permitted += 1 }
            _ = held.engine.execute(
                Command(
                    session: SessionID(1), credential: .anonymous, time: prepared.time, operation: operation))
        }
        #expect(
            adopted > 20 && refused > 20 && denied > 20 && permitted > 10,
            "seed \(seed): \(adopted) \(refused) \(denied) \(permitted)")
    }

    /// What others write elsewhere prevents nothing.
    @Test(arguments: [
        ("newData.child('n').isNumber()", "beside/x", true),
        ("newData.child('n').isNumber()", "list/k9", true),
        ("!data.exists()", "list/k9", true),
        ("!data.exists()", "list/a/x", false),
        ("data.val() === null", "list/a", false),
        ("newData.parent().exists()", "list/k9", true),
        ("newData.parent().parent().child('x').exists()", "x/y", false),
        ("newData.parent().parent().child('x').exists()", "y", true),
        ("root.hasChildren(['config','x'])", "config/x", false),
        ("root.hasChildren(['config','x'])", "beside/x", true),
        ("root.hasChildren()", "beside/x", false),
        ("newData.parent().parent().hasChildren(['list','x'])", "beside/x", true),
        ("root.child('config/open').exists()", "beside/x", true),
        ("root.child('config/open').exists()", "config/open", false),
        ("root.child('config/open').exists()", "config/shut", true),
        ("root.child('users').child(newData.child('by').val()).exists()", "users/zoe/x", true),
        ("root.child('users').child(newData.child('by').val()).exists()", "users/ann", false),
    ])
    func dependencies(rule: String, changed: String, isStillValid: Bool) {
        let text = #"{"rules":{".read":true,".write":true,"list":{"$k":{".validate":"\#(rule)"}}}}"#
        let held = Held(Engine(access: .loaded(try! Ruleset(loading: Array(text.utf8)))))
        let write = Write("list", #"{"a":{"n":1,"by":"ann"}}"#)
        let prepared = held.engine.preparation(for: [write], as: .anonymous, at: 1)!.perform()
        _ = held.engine.execute(
            Command(session: SessionID(2), credential: .admin, time: 2, operation: .put(Write(changed, "7"))))
        let isAdopted = held.engine.adopt(prepared)
        #expect(isAdopted == isStillValid)
    }

    // MARK: Removals

    /// A removal leaves locations on the way to it without data, and no `.validate` applies to them: unless
    /// others have written there meanwhile.
    @Test(
        arguments: [
            // The data, what is removed, what others write meanwhile, whether that prevents nothing.
            (#"{"b":{"k1":1,"k2":1}}"#, ["a/b/k1", "a/b/k2"], "a/d", false),
            (#"{"b":{"k1":1,"k2":1}}"#, ["a/b/k1", "a/b/k2"], "a/b/k3", false),
            (#"{"b":{"k1":1,"k2":1}}"#, ["a/b/k1", "a/b/k2"], "beside/x/y", true),
            (#"{"b":{"c":{"k":1}}}"#, ["a/b/c/k"], "a/d", false),
            (#"{"b":{"c":{"k":1}}}"#, ["a/b/c/k"], "a/b/d", false),
            (#"{"b":{"c":{"k":1}}}"#, ["a/b"], "a/d", false),
            (#"{"b":{"c":{"k":1}}}"#, ["a"], "beside/x/y", true),
            // Something is left: only that counts.
            (#"{"b":{"k1":1,"k2":1}}"#, ["a/b/k1"], "beside/x", true),
            (#"{"b":{"k1":1,"k2":1}}"#, ["a/b/k1"], "a/b", false),
        ] as [(String, [String], String, Bool)])
    func removals(data: String, removed: [String], changed: String, isStillValid: Bool) throws {
        let text = #"{"rules":{"a":{".write":true,".validate":"newData.child('b').exists()"}}}"#
        let held = Held(
            Engine(
                root: Node(#"{"a":\#(data),"beside":{"x":{"z":1}}}"#),
                access: .loaded(try Ruleset(loading: Array(text.utf8)))))
        let writes = removed.map { Write($0, "null") }
        let preparation = held.engine.preparation(for: writes, as: .anonymous, at: 1)
        let prepared = try #require(preparation).perform()
        #expect(prepared.isAllowed == true)
        _ = held.engine.execute(
            Command(session: SessionID(2), credential: .admin, time: 2, operation: .put(Write(changed, "7"))))
        let isAdopted = held.engine.adopt(prepared)
        #expect(isAdopted == isStillValid)
    }

    private static let presenceRules = [
        "newData.child('k1').exists()", "newData.hasChildren()",
        "newData.child('k2').exists() || data.exists()",
        "newData.parent().child('k1').exists()", "newData.child('k1').val() !== 1", "newData.exists()",
    ]

    private static func removing(_ random: inout SeededGenerator) -> [Write] {
        let depth = Int.random(in: 2...3, using: &random)
        var paths: Set<String> = []
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            paths.insert("a" + (0..<depth).map { _ in "/" + random.pick(["k1", "k2"]) }.joined())
        }
        return paths.sorted().map { Write($0, random.chance(80) ? "null" : "1") }
    }

    /// Small trees, of which updates remove most, so that locations are often left without data.
    @Test(arguments: 0..<8) func removalsAreDecidedAsWithoutPreparation(seed: Int) throws {
        var random = SeededGenerator(seed: seed)
        var (adopted, refused, denied, permitted) = (0, 0, 0, 0)
        let held = Held(Engine(access: .open))
        for step in 0..<600 {
            if step % 20 == 0 {
                let rules = (0..<3).map { _ in random.pick(Self.presenceRules) }
                let text = #"""
                    {"rules":{"a":{".write":true,".validate":"\#(rules[0])",
                      "$x":{".validate":"\#(rules[1])","$y":{".validate":"\#(rules[2])"}}}}}
                    """#
                held.engine.access = .loaded(try Ruleset(loading: Array(text.utf8)))
            }
            func disturb() {
                let path = random.pick(["a/k1", "a/k2", "a/k1/k1", "a/k2/k1/k2", "a/k1/k2/k1", "beside", "a"])
                let value = random.pick(["null", "1", #"{"k1":1}"#, #"{"k2":{"k1":1}}"#])
                _ = held.engine.execute(
                    Command(
                        session: SessionID(2), credential: .admin, time: 1,
                        operation: .put(Write(path, value))))
            }
            disturb()
            let writes = Self.removing(&random)
            let preparation = held.engine.preparation(for: writes, as: .anonymous, at: 1)
            let prepared = try #require(preparation).perform()
            for _ in 0..<Int.random(in: 0...2, using: &random) { disturb() }
            let isAdopted = held.engine.adopt(prepared)
            guard isAdopted else {
                refused += 1
                continue
            }
            adopted += 1
            let command = Command(
                session: SessionID(1), credential: .anonymous, time: 1,
                operation: .merge(base: "a", writes))
            let withPreparation = "\(held.engine.decide(command))"
            held.engine.discardPreparedWrite()
            let withoutPreparation = "\(held.engine.decide(command))"
            #expect(withPreparation == withoutPreparation, "seed \(seed), step \(step): \(writes)")
            if prepared.isDenied { denied += 1 } else { permitted += 1 }
            _ = held.engine.execute(command)
        }
        #expect(
            adopted > 50 && refused > 50 && denied > 10 && permitted > 10,
            "seed \(seed): \(adopted) \(refused) \(denied) \(permitted)")
    }

    // MARK: Many locations that rules read

    private static let manyUsers = 1000

    /// There is no other client, and the locations that the rules read have no data.
    @Test(arguments: [false, true]) func manyMissingLocations(isEmpty: Bool) {
        let text = #"""
            {"rules":{"list":{".write":true,"$k":{
              ".validate":"root.child('banned/'+$k).exists() == false && root.child('x/'+$k).val() == null"}}}}
            """#
        let held = Held(
            Engine(
                root: isEmpty ? .empty : Node(#"{"other":1}"#),
                access: .loaded(try! Ruleset(loading: Array(text.utf8)))))
        for limit in [100, ReadLocations.standardLimit] {
            let write = Write(Target("list"), Draft(Self.many(Self.manyUsers, at: "n", "1")))
            let prepared = held.engine.preparation(
                for: [write], as: .anonymous, at: 1, notingAtMost: limit)!.perform()
            #expect(prepared.isAllowed == true)
            let isAdopted = held.engine.adopt(prepared)
            #expect(isAdopted)
            held.engine.discardPreparedWrite()
        }
    }

    private static func many(_ count: Int, at key: Key, _ value: String) -> Node {
        .children(
            Children(
                ascending: (0..<count).map { number in
                    .init(
                        key: Key(unchecked: Text("k\(1_000_000 + number)")),
                        node: .object(Children(ascending: [.init(key: key, node: Node(value))])))
                }))
    }

    /// Each child has another owner, who must exist. Others write something else, steadily.
    @Test(arguments: [
        // Written by others, adopted, and also where parents are noted.
        ("beside/x", "1", true, true), ("users", "null", false, false),
        ("users/k1000007", "null", false, false), ("users/k1000007/seen", "1", true, false),
        ("users/new", "1", true, false), ("list/k1000003", "1", true, true), ("list/k9", "1", true, true),
    ])
    func manyOwners(changed: String, value: String, isAdopted: Bool, whereParentsAreNoted: Bool) {
        let text = #"""
            {"rules":{"list":{".write":true,"$k":{
              ".validate":"root.child('users/'+newData.child('owner').val()).exists()"}}}}
            """#
        var children = Self.many(Self.manyUsers, at: "owner", #""k""#)
        for number in 0..<Self.manyUsers {
            let key = Key(unchecked: Text("k\(1_000_000 + number)"))
            children.set(.string(key.text), at: Path([key, "owner"]))
        }
        for (limit, expected) in [(ReadLocations.standardLimit, isAdopted), (100, whereParentsAreNoted)] {
            var root = Node.empty
            root.set(Self.many(Self.manyUsers, at: "name", "1"), at: "users")
            let held = Held(Engine(root: root, access: .loaded(try! Ruleset(loading: Array(text.utf8)))))
            let write = Write(Target("list"), Draft(children))
            var prepared = held.engine.preparation(
                for: [write], as: .anonymous, at: 1, notingAtMost: limit)!.perform()
            #expect(prepared.isAllowed == true)
            _ = held.engine.execute(
                Command(
                    session: SessionID(2), credential: .admin, time: 2, operation: .put(Write(changed, value))
                ))
            let isAdoptedNow = held.engine.adopt(prepared)
            #expect(isAdoptedNow == expected, "\(limit)")
            held.engine.discardPreparedWrite()
            // The next preparation takes over what still holds, with its time.
            prepared = held.engine.preparation(
                for: [write], as: .anonymous, at: 9, following: prepared, notingAtMost: limit)!.perform()
            #expect(prepared.time == (expected ? 1 : 9))
            #expect(prepared.isDenied == (value == "null"))
        }
    }

    /// More was written elsewhere meanwhile than may be compared at once: a worker compares it.
    @Test func muchThatOthersWrite() {
        let held = Held(Engine(root: Node(#"{"users":{"k2":1}}"#), access: .open))
        var reads = ReadLocations()
        for number in 0..<100 { reads.insert(["users", Key(unchecked: Text("k\(number)"))][...]) }
        let before = held.engine.root
        let others = (0..<20_000).map { Write("users/b\($0)", "1") }
        _ = held.engine.execute(
            Command(
                session: SessionID(2), credential: .admin, time: 2,
                operation: .merge(base: "users", others)))
        #expect(!reads.areUnchanged(from: before, to: held.engine.root))
        #expect(reads.areUnchanged(from: before, to: held.engine.root, visitingAtMost: .max))
    }

    // MARK: Server values

    private static let counters = 2000

    private static func values(_ random: inout SeededGenerator) -> Draft {
        let members = (0..<counters).map { number in
            let value = random.pick([
                #"{".sv":{"increment":1}}"#, #"{".sv":"timestamp"}"#, #"{".sv":{"increment":-2.5}}"#,
                #"{".value":1,".priority":{".sv":"timestamp"}}"#, "7",
                #"{"n":{".sv":{"increment":3}},"m":1}"#,
            ])
            return #""k\#(number)":\#(value)"#
        }
        return Draft("{\(members.joined(separator: ","))}")
    }

    /// Server values that were resolved on a snapshot are those of the tree as it is, or the preparation does
    /// not hold: where something has changed that an increment adds to.
    @Test(arguments: 0..<3, [false, true]) func serverValues(seed: Int, isMerge: Bool) {
        var random = SeededGenerator(seed: seed)
        var (adopted, refused) = (0, 0)
        let held = Held(Engine(access: .open))
        for step in 0..<20 {
            let write = Write(Target("a/list"), Self.values(&random))
            let operation: PandoEngine.Operation = isMerge ? .merge(base: "a", [write]) : .put(write)
            let prepared = held.engine.preparation(for: [write], as: .anonymous, at: Int64(step))!.perform()
            for _ in 0..<Int.random(in: 0...2, using: &random) {
                let path = random.pick([
                    "a/list/k\(Int.random(in: 0..<9, using: &random))",
                    "a/list/k\(Int.random(in: 0..<9, using: &random))", "a/other",
                ])
                _ = held.engine.execute(
                    Command(
                        session: SessionID(2), credential: .admin, time: 1, operation: .put(Write(path, "40"))
                    ))
            }
            let command = Command(
                session: SessionID(1), credential: .anonymous, time: prepared.time, operation: operation)
            let expected = "\(held.engine.decide(command))"
            if held.engine.adopt(prepared) {
                adopted += 1
                #expect("\(held.engine.decide(command))" == expected, "seed \(seed), step \(step)")
            } else {
                refused += 1
            }
            _ = held.engine.execute(command)
            held.engine.discardPreparedWrite()
            #expect(held.engine.root["a/list/k0" as Path].isEmpty == false)
        }
        #expect(adopted > 2 && refused > 0, "seed \(seed): \(adopted) \(refused)")
    }

    /// Few server values are left to the execution.
    @Test func fewServerValuesNeedNoPreparation() {
        let held = Held(Engine(access: .open))
        let write = Write("a", #"{"x":{".sv":{"increment":1}},"y":{".sv":"timestamp"}}"#)
        #expect(held.engine.preparation(for: [write], as: .anonymous, at: 1) == nil)
    }

    // MARK: Server values that rules are asked about

    private static let sumRules = #"""
        {"rules":{
          "item":{".write":true,
            "stock":{".validate":"newData.val() >= 0 && newData.val() <= 5 && newData.getPriority() !== 3"},
            "time":{".validate":"newData.val() === now"}},
          "seen":{".write":"newData.parent().child('item/stock').val() > 0"}}}
        """#

    private static func sums() throws -> Held {
        let access = Access.loaded(try Ruleset(loading: Array(sumRules.utf8)))
        return Held(Engine(root: Node(#"{"item":{"stock":3}}"#), access: access))
    }

    private static func increment(_ random: inout SeededGenerator) -> String {
        #"{".sv":{"increment":\#(random.pick([-2, -1, -1, 1, 1, 2]))}}"#
    }

    /// A write whose rules are about a sum, or about the time.
    private static func sum(_ random: inout SeededGenerator) -> PandoEngine.Operation {
        let increment = Self.increment(&random)
        switch Int.random(in: 0..<5, using: &random) {
        case 0: return .put(Write("item", #"{"stock":\#(increment),"time":{".sv":"timestamp"}}"#))
        case 1: return .put(Write("item/stock", increment))
        case 2: return .put(Write("item/stock", #"{".value":1,".priority":\#(increment)}"#))
        case 3: return .put(Write("item/stock/.priority", increment))
        default: return .merge(base: .root, [Write("item/stock", increment), Write("seen", "1")])
        }
    }

    /// Whatever others write in between: a decision that is adopted is that of the rules about the value that
    /// is stored, and once nothing has changed since it was prepared, it is adopted.
    @Test(arguments: 0..<8) func storedSumsAreThoseThatRulesPermit(seed: Int) throws {
        var random = SeededGenerator(seed: seed)
        var (adopted, refused, denied, permitted) = (0, 0, 0, 0)
        let held = try Self.sums()
        for step in 0..<500 {
            let operation = Self.sum(&random)
            let writes: [Write] =
                switch operation {
                case .put(let write): [write]
                case .merge(_, let writes): writes
                default: []
                }
            let time = Int64(step)
            let preparation = held.engine.preparation(for: writes, as: .anonymous, at: time)
            var prepared = try #require(preparation).perform()
            for _ in 0..<Int.random(in: 0...2, using: &random) {
                let value = random.pick(["0", "1", "4", "5", #"{".value":2,".priority":1}"#])
                let other = random.pick([
                    Write("item/stock", value), Write("beside", value), Write("seen", value),
                ])
                _ = held.engine.execute(
                    Command(
                        session: SessionID(2), credential: .admin, time: time, operation: .put(other)))
            }
            func decide() -> String {
                let command = Command(
                    session: SessionID(1), credential: .anonymous, time: prepared.time, operation: operation)
                return "\(held.engine.decide(command))"
            }
            if held.engine.adopt(prepared) {
                adopted += 1
            } else {
                refused += 1
                held.engine.discardPreparedWrite()
                let next = held.engine.preparation(
                    for: writes, as: .anonymous, at: time + 1, following: prepared)
                prepared = try #require(next).perform()
                let isAdopted = held.engine.adopt(prepared)
                #expect(isAdopted, "nothing has changed since: seed \(seed), step \(step)")
            }
            let withPreparation = decide()
            held.engine.discardPreparedWrite()
            #expect(withPreparation == decide(), "seed \(seed), step \(step): \(operation)")
            if prepared.isDenied { denied += 1 } else { permitted += 1 }
            _ = held.engine.execute(
                Command(
                    session: SessionID(1), credential: .anonymous, time: prepared.time, operation: operation))
            let stock = held.engine.root["item/stock" as Path]
            #expect(stock.doubleValue.map { 0...5 ~= $0 } == true, "seed \(seed), step \(step): \(stock)")
        }
        #expect(
            adopted > 20 && refused > 20 && denied > 20 && permitted > 20,
            "seed \(seed): \(adopted) \(refused) \(denied) \(permitted)")
    }

    /// Of many writes that take the last piece at the same time, one gets it.
    @Test func incrementsThatArePreparedAtTheSameTime() throws {
        let held = try Self.sums()
        let write = Write("item/stock", #"{".sv":{"increment":-2}}"#)
        let prepared = try (0..<6).map { _ -> PreparedWrite in
            let preparation = held.engine.preparation(for: [write], as: .anonymous, at: 1)
            return try #require(preparation).perform()
        }
        var adopted = 0
        for one in prepared where held.engine.adopt(one) {
            adopted += 1
            _ = held.engine.execute(
                Command(session: SessionID(1), credential: .anonymous, time: 1, operation: .put(write)))
            held.engine.discardPreparedWrite()
        }
        #expect(adopted == 1)
        #expect(held.engine.root["item/stock" as Path] == .integer(1))
    }

    // MARK: Indexes and windows

    private static func many(_ count: Int, _ random: inout SeededGenerator) -> Node {
        .children(
            Children(
                ascending: (0..<count).map { number in
                    .init(
                        key: Key(unchecked: Text("k\(1_000_000 + number)")),
                        node: .object(
                            Children(ascending: [
                                .init(key: "n", node: .integer(Int64.random(in: 0..<99_999, using: &random)))
                            ])))
                }))
    }

    /// A large value takes the place of another one, below windows: the pushes are those of a write that was
    /// not prepared, and indexes go on.
    @Test(arguments: 0..<4) func windowsOverReplacedData(seed: Int) {
        var random = SeededGenerator(seed: seed)
        let (with, without) = (Held(Engine(access: .open)), Held(Engine(access: .open)))
        // Without an index, windows find their next children in the same step.
        for held in [with, without] { held.engine.tree.indexes.visitedChildCount = .max }
        func run(_ operation: PandoEngine.Operation, _ session: UInt64 = 1) -> [String] {
            let command = Command(
                session: SessionID(session), credential: .anonymous, time: 1, operation: operation)
            let (pushed, expected) = (with.engine.execute(command).1, without.engine.execute(command).1)
            #expect("\(pushed.pushes)" == "\(expected.pushes)", "seed \(seed)")
            return pushed.pushes.map { "\($0)" }
        }
        _ = run(.put(Write(Target("a/list"), Draft(Self.many(3000, &random)))))
        for (number, order) in [ChildOrder.child("n"), .child("n"), .value, .priority, .key].enumerated() {
            let limit = Query.Limit(count: 3 + number, anchor: number % 2 == 0 ? .first : .last)
            _ = run(
                .listen(
                    Listen(path: "a/list", query: Query(order: order, limit: limit), tag: Int64(number + 1))),
                UInt64(number + 2))
        }
        for held in [with, without] {
            held.engine.tree.noteUse(
                of: Query(order: .child("n"), limit: .init(count: 1, anchor: .first)), at: "a/list",
                isLasting: true, at: 1)
            while held.engine.tree.hasIndexWork {
                for job in held.engine.tree.takeIndexWork().jobs { held.engine.tree.finish(job.perform()) }
            }
        }
        for round in 0..<4 {
            let new = Self.many(3000 + round * 500, &random)
            let write =
                round % 2 == 0
                ? Write(Target("a/list"), Draft(new))
                : Write(Target("a"), Draft(.object(Children(ascending: [.init(key: "list", node: new)]))))
            let prepared = with.engine.preparation(for: [write], as: .anonymous, at: 1)!.perform()
            let isAdopted = with.engine.adopt(prepared)
            #expect(isAdopted)
            #expect(!run(.put(write)).isEmpty)
            with.engine.discardPreparedWrite()
            #expect(
                with.engine.tree.indexed(Query(order: .child("n")), at: "a/list").index != nil, "it goes on")
            _ = with.engine.checkInvariants()
            for _ in 0..<5 {
                let key = Key(unchecked: Text("k\(1_000_000 + Int.random(in: 0..<3000, using: &random))"))
                _ = run(.put(Write(Target(Path(["a", "list", key])), Draft(.empty))))
            }
        }
    }

    /// A merge of many paths looks for indexes only where all of its paths are, however many listens there
    /// are at its base and below: some client may have made fifty thousand.
    @Test func mergesIgnoreListensBesideTheirLocation() {
        let held = Held(Engine(access: .open))
        for number in 0..<100 {
            let listen = Listen(
                path: Path(["a", Key(unchecked: Text("x\(number)"))]),
                query: Query(order: .child("n"), limit: .init(count: 1, anchor: .first)), tag: Int64(number))
            let command = Command(
                session: SessionID(1), credential: .admin, time: 1, operation: .listen(listen))
            _ = held.engine.execute(command)
        }
        let listen = Listen(
            path: "a/list", query: Query(order: .child("m"), limit: .init(count: 1, anchor: .first)), tag: 200
        )
        _ = held.engine.execute(
            Command(session: SessionID(1), credential: .admin, time: 1, operation: .listen(listen)))
        let writes = (0...Engine.largeMergeCount).map {
            Write(Target(Path(["a", "list", Key(unchecked: Text("k\($0)"))])), Draft("1"))
        }
        let preparation = held.engine.preparation(for: writes, mergeBase: "a", as: .anonymous, at: 1)
        #expect(preparation?.builds.map(\.path) == ["a/list"])
    }
}
