import PandoRandom
import Testing

@testable import PandoDatabase

extension FairScheduler where Flow == String {
    /// Serves items until one of the flow is taken, which is not finished.
    /// - Returns: The work before it.
    fileprivate mutating func workBefore(_ flow: String, cost: (String) -> Int) -> Int {
        serve(before: [flow], cost: cost).work
    }

    /// Serves items until one of these flows is taken, which is not finished.
    /// - Returns: Its flow, and the work before it.
    fileprivate mutating func serve(
        before flows: [String], cost: (String) -> Int
    ) -> (flow: String, work: Int) {
        var sum = 0
        while let (served, _) = next() {
            if flows.contains(served) { return (served, sum) }
            finish(work: cost(served))
            sum += cost(served)
        }
        return ("", sum)
    }
}

/// The order of items, and the share of the worker that each flow gets.
@Suite struct FairSchedulerTests {
    private typealias Scheduler = FairScheduler<Int, String, Int>

    private static func scheduler(quantum: Int = 10, debtLimit: Int = 1_000_000) -> Scheduler {
        Scheduler(quantum: quantum, debtLimit: debtLimit, placeholder: -1)
    }

    @Test func itemsOfOneFlowKeepTheirOrder() {
        var scheduler = Self.scheduler()
        for item in 0..<500 { scheduler.append(item, to: "a", of: 1) }
        var served: [Int] = []
        while let (_, item) = scheduler.next() {
            served.append(item)
            scheduler.finish(work: item % 50)
            scheduler.checkInvariants()
        }
        #expect(served == Array(0..<500))
        #expect(scheduler.isIdle)
    }

    /// A flow that piles up heavy items delays itself: one that comes later with a light one waits for one
    /// heavy item at most.
    @Test func lightItemWaitsForOneHeavyItemOfEachOtherFlow() {
        var scheduler = Self.scheduler()
        for item in 0..<1000 { scheduler.append(item, to: "heavy", of: 1) }
        var done = 0
        for _ in 0..<20 {
            guard scheduler.next() != nil else { break }
            scheduler.finish(work: 5000)
            done += 1
        }
        scheduler.append(7, to: "light", of: 1)
        #expect(scheduler.next()?.flow == "light")
        scheduler.finish(work: 1)
        // In debt, but alone: it goes on.
        #expect(scheduler.next()?.flow == "heavy")
        scheduler.finish(work: 5000)
        #expect(done == 20)
    }

    @Test func flowsGetEqualWorkWhateverTheirItemsCost() {
        var scheduler = Self.scheduler()
        let cost = ["a": 1, "b": 40, "c": 333]
        for flow in cost.keys { for item in 0..<100_000 { scheduler.append(item, to: flow, of: 1) } }
        var work: [String: Int] = [:]
        for _ in 0..<60_000 {
            guard let (flow, _) = scheduler.next() else { break }
            scheduler.finish(work: cost[flow] ?? 0)
            work[flow, default: 0] += cost[flow] ?? 0
        }
        let shares = work.values.sorted()
        #expect(shares.count == 3)
        #expect(shares[0] + 400 >= shares[2], "\(work)")
    }

    /// A thousand sessions on one database get together what one session gets on another.
    @Test func groupsGetEqualWorkWhateverTheirFlows() {
        var scheduler = Self.scheduler()
        for flow in 0..<1000 { for item in 0..<100 { scheduler.append(item, to: "many \(flow)", of: 1) } }
        for item in 0..<10_000 { scheduler.append(item, to: "one", of: 2) }
        var work = (many: 0, one: 0)
        for _ in 0..<8000 {
            guard let (flow, _) = scheduler.next() else { break }
            scheduler.finish(work: 10)
            if flow == "one" { work.one += 10 } else { work.many += 10 }
        }
        #expect(abs(work.many - work.one) <= 20, "\(work)")
    }

    /// However many flows pile up work, one that asks for little waits for one turn of another, not for a
    /// round of all.
    @Test func flowThatJustCameWaitsForOneTurn() {
        var scheduler = Self.scheduler()
        for flow in 0..<500 { for item in 0..<100 { scheduler.append(item, to: "heavy \(flow)", of: 1) } }
        // Each of them has had its first turn.
        for _ in 0..<2 * 500 * 4 {
            _ = scheduler.next()
            scheduler.finish(work: 3)
        }
        for _ in 0..<50 {
            scheduler.append(0, to: "light", of: 1)
            let others = scheduler.workBefore("light") { _ in 3 }
            scheduler.finish(work: 3)
            scheduler.checkInvariants()
            #expect(others <= 2 * 12)
        }
    }

    /// A flow that comes with few items has short turns until they are done; it does not wait for a round of
    /// all others with the second.
    @Test func flowWithFewItemsStaysFresh() {
        var scheduler = Self.scheduler()
        for flow in 0..<500 { for item in 0..<100 { scheduler.append(item, to: "heavy \(flow)", of: 1) } }
        for _ in 0..<2 * 500 * 4 {
            _ = scheduler.next()
            scheduler.finish(work: 3)
        }
        for _ in 0..<20 {
            for item in 0..<3 { scheduler.append(item, to: "light", of: 1) }
            for item in 0..<3 {
                let others = scheduler.workBefore("light") { _ in 3 }
                scheduler.finish(work: 3)
                scheduler.checkInvariants()
                #expect(others <= 2 * 12, "item \(item)")
            }
        }
    }

    /// A flow whose light items take more than its share, because there are many others, is not in debt.
    @Test func flowWithLightItemsIsNotInDebt() {
        var scheduler = Self.scheduler()
        for flow in 0..<500 { for item in 0..<100 { scheduler.append(item, to: "heavy \(flow)", of: 1) } }
        for _ in 0..<2 * 500 * 4 {
            _ = scheduler.next()
            scheduler.finish(work: 3)
        }
        scheduler.append(0, to: "light", of: 1)
        // It always has an item. In a round of the others these are many quanta.
        for number in 0..<200 {
            scheduler.append(0, to: "light", of: 1)
            let others = scheduler.workBefore("light") { _ in 3 }
            scheduler.finish(work: 3)
            scheduler.checkInvariants()
            #expect(others <= 2 * 12, "item \(number)")
        }
    }

    /// So are groups: two flows of one with a light item each do not wait for a round of all other groups.
    @Test func groupWithFewItemsStaysFresh() {
        var scheduler = Self.scheduler()
        for group in 2..<102 {
            for item in 0..<100 { scheduler.append(item, to: "heavy \(group)", of: group) }
        }
        for _ in 0..<2 * 100 * 4 {
            _ = scheduler.next()
            scheduler.finish(work: 3)
        }
        for flow in ["a", "b"] { scheduler.append(0, to: flow, of: 1) }
        for number in 0..<200 {
            let (flow, others) = scheduler.serve(before: ["a", "b"]) { _ in 3 }
            scheduler.finish(work: 3)
            // It asks again when it has its reply.
            scheduler.append(0, to: flow, of: 1)
            scheduler.checkInvariants()
            #expect(others <= 2 * 12, "item \(number)")
        }
    }

    /// Flows that always have few items, and are served in the ring, too, are among the fresh once each.
    @Test func fewItemsOfManyFlowsAreServedInTurn() {
        var scheduler = Self.scheduler(quantum: 80)
        for item in 0..<40_000 { scheduler.append(item, to: "bulk", of: 1) }
        for flow in 0..<20 { for item in 0..<3 { scheduler.append(item, to: "few \(flow)", of: 1) } }
        for _ in 0..<300 {
            var others = 0
            scheduler.append(0, to: "light", of: 1)
            while let (flow, _) = scheduler.next(), flow != "light" {
                if flow != "bulk" { scheduler.append(0, to: flow, of: 1) }
                scheduler.finish(work: 5)
                others += 5
            }
            scheduler.finish(work: 5)
            scheduler.checkInvariants()
            // A short turn of each, and as much of the bulk.
            #expect(others <= 2 * 20 * 10 + 2 * 80)
        }
    }

    /// Flows with one heavy item at a time come again as soon as it is done: they are in debt, and a flow
    /// with light items does not wait for them.
    @Test func flowsWithHeavyItemsDoNotDelayLightOnes() {
        var scheduler = Self.scheduler()
        for item in 0..<20_000 { scheduler.append(item, to: "bulk", of: 1) }
        func fill() {
            let waiting = Set(scheduler.waitingFlows)
            for flow in 0..<400 where !waiting.contains("heavy \(flow)") {
                scheduler.append(0, to: "heavy \(flow)", of: 1)
            }
        }
        func cost(_ flow: String) -> Int { flow == "bulk" ? 3 : flow == "light" ? 1 : 25 }
        for number in 0..<600 {
            fill()
            scheduler.append(0, to: "light", of: 1)
            let others = scheduler.workBefore("light", cost: cost)
            scheduler.finish(work: 1)
            // With the first request all others come for the first time.
            #expect(others <= (number == 0 ? 2 * 400 * 25 : 2 * 25), "request \(number)")
            for _ in 0..<2 {
                guard let (flow, _) = scheduler.next() else { break }
                scheduler.finish(work: cost(flow))
            }
        }
        scheduler.checkInvariants()
    }

    /// Flows that come again and again with work of two quanta each delay one that asks for little by a few
    /// short turns.
    @Test func flowsThatComeAgainStandBehindOneWithFewItems() {
        var scheduler = Self.scheduler(quantum: 80)
        // Each flow's window of requests, which it fills again when all are answered.
        func fill() {
            let waiting = Set(scheduler.waitingFlows)
            for flow in 0..<100 where !waiting.contains("heavy \(flow)") {
                for item in 0..<30 { scheduler.append(item, to: "heavy \(flow)", of: 1) }
            }
        }
        for number in 0..<500 {
            fill()
            scheduler.append(0, to: "light", of: 1)
            let others = scheduler.workBefore("light") { _ in 5 }
            scheduler.finish(work: 5)
            // With the first request all others come, too, and each has a short turn.
            #expect(others <= (number == 0 ? 2 * 100 * 10 : 0) + 4 * 80, "request \(number)")
            // Others go on between its requests.
            for _ in 0..<40 {
                guard scheduler.next() != nil else { break }
                scheduler.finish(work: 5)
            }
        }
        scheduler.checkInvariants()
    }

    /// Of flows that come at once with much to do, each has a short turn before the others go on: one that
    /// comes last and asks for little waits for those, not for a whole quantum of each.
    @Test func flowsThatComeAtOnceHaveShortTurns() {
        var scheduler = Self.scheduler(quantum: 80)
        for item in 0..<1000 { scheduler.append(item, to: "old", of: 1) }
        for _ in 0..<100 {
            _ = scheduler.next()
            scheduler.finish(work: 5)
        }
        for flow in 0..<100 { for item in 0..<100 { scheduler.append(item, to: "heavy \(flow)", of: 1) } }
        scheduler.append(0, to: "light", of: 1)
        let others = scheduler.workBefore("light") { _ in 5 }
        scheduler.finish(work: 5)
        scheduler.checkInvariants()
        // Ten each, and as much of the old one.
        #expect(others <= 2 * 100 * 10 + 2 * 80)
    }

    /// Flows that come, ask for one thing and go, one behind the other, take half of the work at most.
    @Test func flowsThatComeAllTheTimeLeaveHalf() {
        var scheduler = Self.scheduler()
        for item in 0..<10_000 { scheduler.append(item, to: "heavy", of: 1) }
        var work = (heavy: 0, light: 0)
        for number in 0..<2000 {
            // As many as there is time for: one always waits.
            while scheduler.waitingFlows.count < 2 { scheduler.append(0, to: "light \(number)", of: 1) }
            guard let (flow, _) = scheduler.next() else { break }
            scheduler.finish(work: 10)
            if flow == "heavy" { work.heavy += 10 } else { work.light += 10 }
        }
        #expect(abs(work.heavy - work.light) <= 20, "\(work)")
        scheduler.checkInvariants()
    }

    /// A flow that owes the others something is not fresh because it was away.
    @Test func flowInDebtIsNotFresh() {
        var scheduler = Self.scheduler()
        scheduler.append(0, to: "debtor", of: 1)
        for item in 0..<1000 { scheduler.append(item, to: "other", of: 1) }
        while let (flow, _) = scheduler.next() {
            scheduler.finish(work: flow == "debtor" ? 1000 : 10)
            if flow == "debtor" { break }
        }
        scheduler.append(0, to: "debtor", of: 1)
        let others = scheduler.workBefore("debtor") { _ in 10 }
        #expect(others >= 980)
    }

    @Test func suspendedFlowWaitsAndOthersGoOn() {
        var scheduler = Self.scheduler()
        for item in 0..<3 {
            scheduler.append(item, to: "a", of: 1)
            scheduler.append(item, to: "b", of: 1)
        }
        let first = scheduler.next()
        scheduler.suspend(first?.flow ?? "", of: 1)
        scheduler.finish(work: 1)
        scheduler.checkInvariants()
        let other = first?.flow == "a" ? "b" : "a"
        for item in 0..<3 {
            let next = scheduler.next()
            #expect(next?.flow == other && next?.item == item)
            scheduler.finish(work: 1)
        }
        #expect(scheduler.next() == nil)
        #expect(!scheduler.hasNext && !scheduler.isIdle && scheduler.count == 2)
        scheduler.resume(first?.flow ?? "")
        #expect(scheduler.next()?.item == 1)
        scheduler.finish(work: 1)
        #expect(scheduler.next()?.item == 2)
        scheduler.finish(work: 1)
        #expect(scheduler.isIdle)
        scheduler.checkInvariants()
    }

    @Test func droppedItemsAreNotServedAndTheOthersKeepTheirOrder() {
        var scheduler = Self.scheduler()
        for item in 0..<200 { scheduler.append(item, to: "a", of: 1) }
        for _ in 0..<70 {
            _ = scheduler.next()
            scheduler.finish(work: 1)
        }
        #expect(scheduler.drop("a") { $0 % 2 == 0 } == 65)
        scheduler.checkInvariants()
        var served: [Int] = []
        while let (_, item) = scheduler.next() {
            served.append(item)
            scheduler.finish(work: 1)
        }
        #expect(served == (70..<200).filter { $0 % 2 == 1 })
        scheduler.append(1, to: "b", of: 1)
        #expect(scheduler.drop("b") { _ in true } == 1)
        #expect(scheduler.isIdle && scheduler.next() == nil)
        scheduler.checkInvariants()
    }

    /// The state that is kept of flows without items is bounded.
    @Test func debtsOfFlowsThatLeftAreForgotten() {
        var scheduler = Self.scheduler()
        for flow in 0..<10_000 {
            scheduler.append(0, to: "flow \(flow)", of: flow % 7)
            _ = scheduler.next()
            scheduler.finish(work: 1_000_000)
        }
        #expect(scheduler.isIdle)
        scheduler.checkInvariants()
    }

    /// Random flows, groups, costs, suspensions and drops: each item is served once, in its flow's order,
    /// unless it was dropped; and no flow that may be served waits while others are served more than a round.
    @Test(arguments: 0..<40 as Range<UInt64>) func everyItemIsServedOnceAndNoFlowStarves(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var scheduler = FairScheduler<Int, Int, Int>(quantum: 10, debtLimit: 500, placeholder: -1)
        var expected: [Int: [Int]] = [:]
        var suspended: Set<Int> = []
        var number = 0
        /// Work that others got since the flow was served last while it could have been.
        var waited: [Int: Int] = [:]
        let flowCount = 8
        for _ in 0..<3000 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<4:
                let flow = Int.random(in: 0..<flowCount, using: &random)
                let items = number..<number + Int.random(in: 1...3, using: &random)
                scheduler.append(items, to: flow, of: flow % 2)
                expected[flow, default: []] += items
                number = items.upperBound
            case 4..<8:
                guard let (flow, item) = scheduler.next() else { break }
                #expect(!suspended.contains(flow))
                #expect(expected[flow]?.first == item, "seed \(seed)")
                expected[flow]?.removeFirst()
                // Some that follow it at the same turn.
                while Bool.random(using: &random) {
                    let next = expected[flow]?.first.flatMap { $0 % 5 == 0 ? nil : $0 }
                    #expect(scheduler.nextOfSameFlow { $0 % 5 != 0 } == next, "seed \(seed)")
                    guard next != nil else { break }
                    expected[flow]?.removeFirst()
                    scheduler.checkInvariants()
                }
                let work = Int.random(in: 0..<60, using: &random)
                if Int.random(in: 0..<20, using: &random) == 0 {
                    scheduler.suspend(flow, of: flow % 2)
                    suspended.insert(flow)
                }
                scheduler.finish(work: work)
                waited[flow] = 0
                for other in 0..<flowCount where other != flow {
                    let mayBeServed = expected[other]?.isEmpty == false && !suspended.contains(other)
                    waited[other] = mayBeServed ? (waited[other] ?? 0) + work : 0
                    // Its own debt, and a round of all others with an item that overdraws each.
                    let bound = 2 * (500 + flowCount * (10 + 60)) * flowCount
                    #expect(waited[other] ?? 0 < bound, "flow \(other) starves, seed \(seed)")
                }
            case 8:
                guard let flow = suspended.randomElement(using: &random) else { break }
                suspended.remove(flow)
                scheduler.resume(flow)
            default:
                let flow = Int.random(in: 0..<flowCount, using: &random)
                guard Int.random(in: 0..<5, using: &random) == 0 else { break }
                scheduler.drop(flow) { $0 % 3 == 0 }
                expected[flow]?.removeAll { $0 % 3 == 0 }
            }
            scheduler.checkInvariants()
        }
        for flow in suspended { scheduler.resume(flow) }
        while let (flow, item) = scheduler.next() {
            #expect(expected[flow]?.first == item)
            expected[flow]?.removeFirst()
            scheduler.finish(work: 1)
        }
        #expect(expected.values.allSatisfy { $0.isEmpty }, "seed \(seed)")
        #expect(scheduler.isIdle)
        scheduler.checkInvariants()
    }
}
