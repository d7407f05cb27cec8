import PandoEngine
import PandoTree
import Testing

@testable import PandoDatabase
@testable import PandoStorage

/// One bound for the indexes of all databases.
@Suite struct IndexMemoryTests {
    private static let many = "{" + (0..<600).map { #""k\#($0)":{"n":\#($0)}"# }.joined(separator: ",") + "}"
    private static let query = #""q":{"i":"n","l":3,"vf":"r"}"#

    /// Requests of session N are for database N.
    private static func bench(indexByteLimit: Int, databases: ClosedRange<UInt32>) throws -> Bench {
        let bench = try Bench(directory: nil, indexByteLimit: indexByteLimit)
        for slot in databases {
            bench.process([Bench.open(slot, "db\(slot)"), try Bench.put(slot, 1, "/list", many)])
        }
        return bench
    }

    /// Listens through a query, which asks for an index.
    private static func ask(_ slot: UInt32, _ bench: Bench) throws {
        bench.process([
            try Bench.request(
                slot, #"{"t":"d","d":{"r":2,"a":"q","b":{"p":"/list",\#(query),"t":1,"h":""}}}"#)
        ])
        bench.work()
    }

    private static func engine<Result>(_ slot: UInt32, _ bench: Bench, _ body: (StoredDatabase) -> Result)
        -> Result
    {
        body(bench.host.processor.databases["db\(slot)"]!)
    }

    private static func isIndexed(_ slot: UInt32, _ bench: Bench) -> Bool {
        engine(slot, bench) { $0.engine.tree.indexed(Query(order: .child("n")), at: "list").index != nil }
    }

    private static func byteCount(_ slots: ClosedRange<UInt32>, _ bench: Bench) -> Int {
        slots.reduce(0) { $0 + engine($1, bench) { $0.engine.tree.onDemandIndexByteCount } }
    }

    @Test func theLeastRecentlyUsedOfAllDatabasesIsDropped() throws {
        // Each index takes some twenty kilobytes: two fit.
        let limit = 50_000
        let bench = try Self.bench(indexByteLimit: limit, databases: 1...4)
        for slot in 1...4 as ClosedRange<UInt32> {
            try Self.ask(slot, bench)
            #expect(Self.isIndexed(slot, bench), "the newest one stays")
            #expect(Self.byteCount(1...4, bench) <= limit)
            // The wall clock has milliseconds: the next use is later.
            let time = bench.host.processor.clock.now()
            while bench.host.processor.clock.now() == time {}
        }
        #expect(!Self.isIndexed(1, bench) && !Self.isIndexed(2, bench))
        #expect(Self.isIndexed(3, bench) && Self.isIndexed(4, bench))
    }

    /// Also where writes have made them larger.
    @Test func growthByWritesCounts() throws {
        let bench = try Self.bench(indexByteLimit: 300_000, databases: 1...2)
        try Self.ask(1, bench)
        try Self.ask(2, bench)
        #expect(Self.isIndexed(1, bench) && Self.isIndexed(2, bench))
        for part in 0..<40 {
            let children = (0..<250).map { #""g\#(part)-\#($0)":{"n":\#($0)}"# }.joined(separator: ",")
            bench.process([
                try Bench.request(2, #"{"t":"d","d":{"r":3,"a":"m","b":{"p":"/list","d":{\#(children)}}}}"#)
            ])
            bench.work()
            // The host looks whenever an engine's have grown by 64 KiB.
            #expect(Self.byteCount(1...2, bench) <= 300_000 + 2 * (64 << 10) + 250 * 1000)
        }
        #expect(!(Self.isIndexed(1, bench) && Self.isIndexed(2, bench)))
    }

    /// Clients create databases under `--dev`: those without indexes cost the others nothing.
    @Test func onlyDatabasesWithIndexesAreLookedAt() throws {
        let bench = try Self.bench(indexByteLimit: 300_000, databases: 1...2)
        let processor = bench.host.processor
        for number in 0..<200 { _ = try processor.database(named: "empty\(number)") }
        #expect(processor.indexes.holderCount == 0)
        try Self.ask(1, bench)
        #expect(processor.indexes.holderCount == 1)
        bench.process([try Bench.put(1, 3, "/list", "null")])
        try Self.ask(2, bench)
        #expect(Self.isIndexed(2, bench) && processor.indexes.holderCount <= 2)
    }

    /// What clients create is bounded; what is there stays.
    @Test func noMoreDatabasesThanTheLimitAreCreated() throws {
        let bench = try Bench(directory: nil)
        let processor = bench.host.processor
        let limit = processor.options.databaseLimit
        for number in 0..<limit + 10 { _ = try processor.database(named: "d\(number)") }
        #expect(processor.databases.count == limit)
        #expect(try processor.database(named: "d0") != nil)
        bench.process([Bench.open(1, "onemore")])
        let messages = bench.takeMessages()
        #expect(messages.first?.contains("Firebase error. Please ensure") == true)
        #expect(messages.last == "1 close finished")
    }
}
