import PandoBytes
import PandoRandom
import Testing

@testable import PandoTree

/// The hash of a node in slices, with what is known of earlier snapshots.
@Suite struct HashWalkTests {
    private static func hash(_ node: Node, by stepCount: Int, _ pages: inout HashedPages) -> (
        hash: String, steps: Int, slices: Int
    ) {
        var walk = HashWalk(node)
        var slices = 1
        while true {
            if let hash = walk.advance(by: stepCount, knowing: &pages) {
                return (hash, walk.hashedStepCount, slices)
            }
            slices += 1
        }
    }

    /// An object with many small children.
    private static func large(_ count: Int, priorities: Bool = false) -> Node {
        let entries = (0..<count).map { number -> Children.Entry in
            let digits = String(number)
            let key = "k" + String(repeating: "0", count: 7 - digits.count) + digits
            var child = Node.empty
            child.set(.integer(Int64(number)), at: Path(trusted: "n"))
            child.set(.string(Text("s\(number % 10)")), at: Path(trusted: "s"))
            if priorities, number.isMultiple(of: 3) {
                child = child.with(priority: .number(Double(number * 7919 % 1009)))
            }
            return Children.Entry(key: Key(unchecked: Text(key)), node: child)
        }
        return .object(Children(ascending: entries))
    }

    @Test(arguments: [true, false]) func slicesGiveTheSameHash(priorities: Bool) {
        let node = Self.large(3000, priorities: priorities).with(priority: priorities ? .string("p") : nil)
        for stepCount in [1, 7, 1000, 100_000] {
            var pages = HashedPages(byteLimit: 1 << 30)
            let (hash, _, slices) = Self.hash(node, by: stepCount, &pages)
            #expect(hash == node.hash)
            #expect(slices >= 9000 / (stepCount + 1000))
        }
    }

    /// Large objects within large ones, with and without priorities, after changes, also with little memory.
    @Test(arguments: 0..<3) func knownPagesGiveTheSameHash(seed: UInt64) throws {
        var maker = TreeMaker(generator: SeededGenerator(seed: seed))
        var node = Node.empty
        for name in ["a", "b", "c"] {
            let part = Self.large(700, priorities: name == "b")
            node.set(part, at: Path(trusted: "top/\(name)"))
            for number in 0..<40 { node.set(maker.tree(), at: Path(trusted: "top/\(name)/x\(number)")) }
        }
        var pages = HashedPages(byteLimit: seed.isMultiple(of: 2) ? 1 << 30 : 100_000)
        var snapshots: [Node] = []
        for round in 0..<30 {
            #expect(Self.hash(node, by: 500, &pages).hash == node.hash, "round \(round)")
            snapshots.append(node)
            let name = maker.generator.pick(["a", "b", "c"])
            let number = Int.random(in: 0..<800, using: &maker.generator)
            let path = Path(trusted: "top/\(name)/k\(String(repeating: "0", count: 4))\(100 + number)")
            switch round % 4 {
            case 0: node.set(.empty, at: path)
            case 1: node.set(maker.tree(), at: path)
            case 2: node.set(priority: maker.priority() ?? .number(4), at: path)
            default: node.set(.integer(Int64(number)), at: Path(trusted: "top/\(name)/new\(number)"))
            }
            if round.isMultiple(of: 7) { snapshots = [] }
        }
    }

    /// Where there is no memory for pages, each is hashed in slices all the same, and at most twice.
    @Test func prioritiesAreHashedInSlices() {
        let node = Self.large(20_000, priorities: true)
        var pages = HashedPages(byteLimit: 1)
        var walk = HashWalk(node)
        var (most, before) = (0, 0)
        while true {
            let hash = walk.advance(by: 500, knowing: &pages)
            most = max(most, walk.hashedStepCount - before)
            before = walk.hashedStepCount
            guard let hash else { continue }
            #expect(hash == node.hash)
            break
        }
        #expect(most <= 500 + 10 && walk.hashedStepCount <= 61_000)
    }

    /// After a change of one child, the children of its page are hashed, and not all 20 000.
    @Test func hashAfterAChangeCostsOnePage() {
        var node = Self.large(20_000)
        var pages = HashedPages(byteLimit: 1 << 30)
        let first = Self.hash(node, by: .max, &pages)
        #expect(first.steps >= 60_000)
        for number in [0, 777, 19_999] {
            let digits = String(number)
            let key = "k" + String(repeating: "0", count: 7 - digits.count) + digits
            node.set(.integer(-1), at: Path(trusted: "\(key)/n"))
            let (hash, steps, _) = Self.hash(node, by: .max, &pages)
            #expect(hash == node.hash)
            #expect(steps <= 32 * 3)
        }
        #expect(Self.hash(node, by: .max, &pages).steps == 0)
    }

    @Test func replacedPagesAreDropped() {
        var node = Self.large(2000)
        var pages = HashedPages(byteLimit: 2_000_000)
        var most = 0
        for number in 0..<2000 {
            node.set(.integer(Int64(-number)), at: Path(trusted: "k0000\(100 + number % 900)/n"))
            _ = Self.hash(node, by: .max, &pages)
            most = max(most, pages.count)
        }
        #expect(most < 1000)
    }

    @Test(arguments: ["1", #""text""#, #"{"a":1}"#, #"{".value":1,".priority":2}"#])
    func smallNodes(json: String) throws {
        var pages = HashedPages(byteLimit: 1 << 20)
        #expect(Self.hash(try node(json), by: 1, &pages).hash == (try node(json)).hash)
        #expect(Self.hash(.empty, by: 1, &pages).hash == "")
    }
}
