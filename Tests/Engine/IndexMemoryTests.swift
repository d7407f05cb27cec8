import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoEngine

/// The bytes that indexes count for are those that they take, whatever has become of their pages.
@Suite struct IndexMemoryTests {
    /// What is done to a location of so many children after its index was built.
    enum History: CaseIterable {
        case built, appendedTo, insertedInto, valuesChanged, mostlyRemoved, removedAndAdded, merged
    }

    private static let path: Path = "list"
    private static let order = ChildOrder.child("n")

    private static func key(_ number: Int) -> Key { Key(unchecked: Text("key \(1_000_000 + number)")) }

    private static func engine(_ count: Int) -> Held {
        let children = Children(
            ascending: (0..<count).map {
                .init(
                    key: key($0 * 10),
                    node: .children(Children(ascending: [.init(key: "n", node: .integer(Int64($0)))])))
            })
        let held = Held(
            Engine(
                root: .object(Children(ascending: [.init(key: "list", node: .object(children))])),
                access: .open))
        held.engine.tree.noteUse(of: Query(order: order), at: path, isLasting: true, at: 1)
        held.engine.tree.noteUse(
            of: Query(order: order, limit: .init(count: 1, anchor: .first)), at: path, isLasting: true, at: 1)
        work(held)
        return held
    }

    private static func work(_ held: Held) {
        while held.engine.tree.hasIndexWork {
            for job in held.engine.tree.takeIndexWork().jobs { held.engine.tree.finish(job.perform()) }
        }
    }

    private static func merge(_ held: Held, _ writes: [(Int, Node)]) {
        let writes = writes.map { Write(Target(path.appending(key($0.0)).appending("n")), Draft($0.1)) }
        _ = held.engine.execute(
            Command(
                session: SessionID(1), credential: .admin, time: 5, operation: .merge(base: path, writes)))
    }

    @Test(arguments: History.allCases, [300, 5000])
    func countedBytesAreThoseThatAreAllocated(history: History, count: Int) throws {
        var random = SeededGenerator(seed: count)
        let held = Self.engine(count)
        func check(_ step: Int) throws {
            Self.work(held)
            guard
                case .ordered(let index)? = held.engine.tree.indexed(Query(order: Self.order), at: Self.path)
                    .index
            else { return }
            let (taken, counted) = (index.byteCount, held.engine.tree.onDemandIndexByteCount)
            #expect(counted >= taken, "\(history), step \(step): \(counted) counted, \(taken) taken")
            #expect(
                counted <= 2 * taken + 4096, "\(history), step \(step): \(counted) counted, \(taken) taken")
        }
        try check(-1)
        for step in 0..<400 {
            let number = Int.random(in: 0..<count, using: &random)
            let value = Node.integer(Int64.random(in: 0..<Int64(count), using: &random))
            switch history {
            case .built: return
            case .appendedTo: Self.merge(held, [((count + step) * 10, .integer(Int64(count + step)))])
            case .insertedInto: Self.merge(held, [(number * 10 + 1 + step % 9, value)])
            case .valuesChanged: Self.merge(held, [(number * 10, value)])
            case .mostlyRemoved:
                Self.merge(held, (0..<(count / 500)).map { ((step * (count / 500) + $0) * 10, .empty) })
            case .removedAndAdded:
                Self.merge(held, [(number * 10, .empty)])
                Self.merge(held, [(number * 10 + 5, value)])
            case .merged:
                Self.merge(
                    held, stride(from: number, to: min(count, number + 50), by: 1).map { ($0 * 10, value) })
            }
            if step % 7 == 0 { try check(step) }
        }
        _ = held.engine.checkInvariants()
    }

    /// An index that writes make larger than the limit is dropped, as one that is built is.
    @Test func writesGrowIndexesPastTheLimit() {
        let held = Self.engine(300)
        func isReady() -> Bool {
            held.engine.tree.indexed(Query(order: Self.order), at: Self.path).index != nil
        }
        #expect(isReady())
        held.engine.tree.indexByteLimit = held.engine.tree.onDemandIndexByteCount + 20_000
        for number in 0..<1000 { Self.merge(held, [(number * 10 + 3, .integer(Int64(number)))]) }
        #expect(!isReady())
        #expect(held.engine.tree.indexes.onDemandByteCount == 0)
        #expect(!held.engine.tree.takeIndexWork().dropped.isEmpty, "the host frees it")
    }
}
