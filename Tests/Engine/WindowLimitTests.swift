import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoEngine

/// Windows of one location, of which one write touches more than it may mark or update.
@Suite struct WindowLimitTests {
    /// Five hundred windows, each with the same last child, of which a write may mark two hundred.
    static func windowsOfOneLocation() -> WindowClients {
        let clients = WindowClients(
            root: .children(
                Children(ascending: [.init(key: "q", node: StaleWindowTests.thousand(from: 1))])))
        for tag in 0..<500 {
            clients.listen(
                "q", Query(#"{"i":"n","sp":-\#(tag + 1),"l":1,"vf":"r"}"#), tag: Int64(tag),
                by: UInt64(1 + tag / 100))
        }
        clients.held.engine.tree.updater.budget.viewLimit = 200
        return clients
    }

    /// However often a child is written that is in more windows than a write may mark: no write finds those
    /// that are stale again, and each of them gets its turn.
    @Test func windowsThatAwaitTheSweepAreNotFoundAgain() {
        let clients = Self.windowsOfOneLocation()
        clients.put("q/999/n", .integer(5000))
        #expect(clients.staleCount == 500)
        let first = clients.held.engine.tree.updater.sweeps.lastNumber
        for number in 1...5 {
            #expect(clients.put("q/999/n", .integer(Int64(5000 + number))).isEmpty)
            #expect(clients.held.engine.tree.updater.budget.viewsLeft == 200)
            #expect(clients.held.engine.tree.updater.scans.waitingCount == 0)
        }
        #expect(clients.held.engine.tree.updater.sweeps.lastNumber == first, "none begins a sweep anew")
        var tags: Set<Int64> = []
        for round in 0..<500 where tags.count < 500 {
            clients.put("q/999/n", .integer(Int64(6000 + round)))
            for push in clients.finishWhatIsReady().joined() {
                tags.formUnion(push.taggedRecipients.map(\.tag))
            }
        }
        #expect(tags.count == 500, "each gets its turn")
        _ = clients.finishInSteps()
        #expect(clients.staleCount == 0)
        clients.expectCurrent("in the end")
    }

    /// A window that takes more than twice the budget of a write is left to another thread, though it is the
    /// first.
    @Test func windowsLargerThanTheBudgetAreLeftToOtherThreads() {
        let clients = StaleWindowTests.windowsOfAThousand()
        // A window of 1000 children takes 32 000.
        clients.held.engine.tree.updater.budget.writeLimit = 15_000
        #expect(clients.put("q", StaleWindowTests.thousand(from: 2)).isEmpty && clients.staleCount == 100)
        _ = clients.finishInSteps()
        #expect(clients.staleCount == 0)
        clients.expectCurrent("in the end")
    }

    /// Few windows may be marked, and many are touched, whatever is written and listened to meanwhile.
    @Test(arguments: 0..<6) func clientsHaveWhatWritesMayNotMarkInTheEnd(seed: Int) {
        var random = SeededGenerator(seed: seed)
        let clients = WindowClients()
        clients.held.engine.tree.updater.budget.viewLimit = 2
        if seed % 2 == 0 { clients.held.engine.tree.updater.budget.comparisonLimit = 4 }
        if seed % 3 == 0 { clients.held.engine.tree.updater.budget.writeLimit = 1000 }
        var sweptCount = 0
        clients.put("q", StaleWindowTests.list(&random, 40, keys: 50))
        for index in StaleWindowTests.queries.indices {
            clients.listen("q", StaleWindowTests.queries[index], tag: Int64(index + 1))
        }
        for step in 0..<400 {
            clients.run(StaleWindowTests.operation(&random))
            if random.chance(10) {
                let index = Int.random(in: StaleWindowTests.queries.indices, using: &random)
                clients.unlisten(tag: Int64(index + 1))
                clients.listen("q", StaleWindowTests.queries[index], tag: Int64(index + 1))
            }
            if clients.held.engine.tree.updater.sweeps.scope != nil { sweptCount += 1 }
            clients.finishOne(inPercent: 40, &random)
            if step % 10 == 0 { _ = clients.held.engine.checkInvariants() }
        }
        clients.finishAll(&random)
        #expect(sweptCount > 50 && clients.staleCount == 0, "seed \(seed)")
        clients.expectCurrent("seed \(seed)")
    }
}
