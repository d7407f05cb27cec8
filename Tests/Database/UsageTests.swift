import PandoBytes
import PandoTime
import PandoTree
import Synchronization
import Testing

@testable import PandoDatabase

@Suite("usage by path") struct UsageTests {
    private func time(_ seconds: Double) -> MonotonicTime {
        MonotonicTime(nanoseconds: UInt64((seconds + 1000) * 1e9))
    }

    @Test(
        "numbers are rates of about the last minute, from the first second on", arguments: [1.0, 10, 60, 600])
    func rates(seconds: Double) throws {
        var table = UsageTable(at: time(0))
        for step in 0..<Int(seconds * 10) {
            table.add("/a", of: "default", at: time(Double(step) / 10)) {
                $0.reads += 2
                $0.busySeconds += 0.01
            }
        }
        let entry = try #require(table.rates(at: time(seconds)).first)
        #expect(entry.pattern == "/a" && entry.database == "default")
        #expect(abs(entry.reads - 20) < 2, "\(entry.reads)")
        #expect(abs(entry.busySeconds - 0.1) < 0.01, "\(entry.busySeconds)")
    }

    @Test("what has ended fades, and is forgotten")
    func fading() throws {
        var table = UsageTable(at: time(0))
        for step in 0..<6000 {
            table.add("/a", of: "default", at: time(Double(step) / 10)) { $0.busySeconds += 0.01 }
        }
        let before = try #require(table.rates(at: time(600)).first).busySeconds
        let after = try #require(table.rates(at: time(660)).first).busySeconds
        #expect(abs(after / before - 0.5) < 0.01)
        #expect(table.rates(at: time(10_000)).isEmpty)
    }

    @Test("the most expensive patterns are kept, of any number")
    func bounds() throws {
        var table = UsageTable(at: time(0))
        for step in 0..<20_000 {
            let now = time(Double(step) / 1000)
            table.add("/heavy", of: "default", at: now) { $0.busySeconds += 0.001 }
            if step % 4 == 0 { table.add("/half", of: "default", at: now) { $0.busySeconds += 0.002 } }
            table.add("/rare/\(step)", of: "default", at: now) { $0.busySeconds += 0.0001 }
        }
        #expect(table.count == UsageTable.limit)
        let found = table.rates(at: time(20))
        #expect(found.prefix(2).map(\.pattern) == ["/heavy", "/half"])
        #expect(abs(found[0].busySeconds - 1) < 0.1 && found[0].busySecondsError == 0)
        // A bound of the error: the time of what was forgotten, spread over all patterns.
        #expect(found.allSatisfy { $0.busySecondsError <= 2.1 / Double(UsageTable.limit) * 1.2 })
    }

    @Test(
        "much data is weighed by its first children",
        arguments: [
            // children, bytes of each, weighed exactly
            (0, 0, true), (10, 20, true), (100, 20, true), (100_000, 20, false), (50, 3000, false),
        ])
    func weights(count: Int, byteCount: Int, isExact: Bool) {
        let text = Node.string(Text(String(repeating: "x", count: byteCount)))
        let entries = (0..<count).map { Children.Entry(key: Key(index: 100_000 + $0), node: text) }
        let node = Node.children(Children(ascending: entries))
        let limit = CommandProcessor.weighedByteLimit
        let weight: Int = node.weight(upTo: Int.max)
        let estimate: Int = node.estimatedWeight(weighing: limit)
        let difference: Int = abs(estimate - weight)
        #expect(isExact ? difference == 0 : difference * 100 < weight, "\(estimate) of \(weight)")
        let nested = Node.children(Children(ascending: [Children.Entry(key: "a", node: node)]))
        #expect(nested.estimatedWeight(weighing: limit) <= limit + 3100, "the work is bounded")
    }

    @Test("listeners are counted by pattern, by the thread that asks")
    func listeners() throws {
        let bench = try Bench(directory: nil)
        for slot: UInt32 in 1...3 {
            bench.process([Bench.open(slot)])
            for number in 1...4 {
                bench.process([try Bench.listen(slot, number, "/rooms/\(100 + number)/text")])
            }
        }
        let answer = Mutex<UsageSnapshot?>(nil)
        bench.process([.usage { found in answer.withLock { $0 = found } }])
        let found = try #require(answer.withLock { $0 })
        #expect(found.sessionCount == 3 && found.listens.map(\.count) == [4, 4, 4])
        #expect(found.usage.allSatisfy { $0.listeners == 0 })
        #expect(found.paths.first { $0.pattern == "/rooms/*/text" }?.listeners == 12)
    }

    @Test("listeners of the sessions that were looked at stand for those of all")
    func listenersOfMany() {
        var snapshot = UsageSnapshot()
        #expect(snapshot.paths.isEmpty)
        snapshot.usage = [("one", "/a"), ("two", "/a"), ("one", "/b/*")].map {
            PathUsage(database: $0.0, pattern: $0.1)
        }
        snapshot.listens = [
            UsageSnapshot.Listens(database: "one", count: 2, paths: ["a", "b/123"]),
            // Named are two of its listens.
            UsageSnapshot.Listens(database: "two", count: 6, paths: ["a", "c"]),
            UsageSnapshot.Listens(database: "two", count: 0, paths: []),
        ]
        snapshot.sessionCount = 30
        #expect(snapshot.paths.map(\.listeners) == [10, 30, 10])
        #expect(snapshot.paths.map(\.pattern) == ["/a", "/a", "/b/*"])
    }

    @Test("the same pattern of two databases is two")
    func databases() {
        var table = UsageTable(at: time(0))
        table.add("/a", of: "one", at: time(0)) { $0.busySeconds += 1 }
        table.add("/a", of: "two", at: time(0)) { $0.busySeconds += 2 }
        #expect(table.rates(at: time(1)).map(\.database) == ["two", "one"])
    }

    @Test(
        "few messages are all measured, many seldom, and the weights add up",
        arguments: [(10.0, 1.0), (100, 1), (10_000, 10), (1_000_000, 300)])
    func sampling(messagesPerSecond: Double, leastInterval: Double) {
        var sampler = UsageSampler()
        var (countdown, samples, counted) = (1, 0, 0)
        let total = 200_000
        for message in 0..<total {
            countdown -= 1
            guard countdown == 0 else { continue }
            counted += sampler.interval
            samples += 1
            countdown = sampler.next(at: time(Double(message) / messagesPerSecond))
        }
        #expect(counted > total - 2048 && counted <= total)
        let mean = Double(total) / Double(samples)
        #expect(mean >= leastInterval, "\(mean)")
        if messagesPerSecond <= 100 { #expect(samples == total) }
    }
}
