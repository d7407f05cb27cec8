import PandoEngine
import PandoRandom
import PandoTime
import Testing

@testable import PandoConnections

/// A browser and a session by long polling over connections that break at any time: nothing is lost, nothing
/// comes twice, and everything keeps its order, in both directions (realtime §1.5.2).
@Suite struct LongPollingPropertyTests {
    @Test(arguments: 0..<20 as Range<UInt64>)
    func everyMessageArrivesOnceAndInOrder(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var world = PollingWorld()
        var browser = PollingBrowser()
        browser.start(&world)
        var pushed = 0
        for step in 0..<600 {
            world.now = world.now + .milliseconds(Int.random(in: 0...50, using: &random))
            switch Int.random(in: 0..<12, using: &random) {
            case 0...3:
                world.push("{\"n\":\(pushed)}")
                pushed += 1
            case 4 where browser.underWay.count < 2 && step > 5:
                browser.poll(Int.random(in: 0...3, using: &random), &world)
            case 5
            where !browser.underWay.isEmpty && step > 5
                && browser.underWay[0].target.contains("ser=1&") == false:
                let index = Int.random(in: browser.underWay.indices, using: &random)
                browser.lose(index, isDelivered: Bool.random(using: &random), asksAgain: true, &world)
            case 6:
                if let id = world.openConnections.randomElement(using: &random) { world.take(on: id) }
            case 7: world.deadline()
            default:
                world.endOfTick()
                browser.read(world)
                if browser.underWay.isEmpty, step > 5 { browser.poll(0, &world) }
            }
        }
        // Nothing breaks any more.
        for _ in 0..<400 where browser.received.count < pushed || !browser.underWay.isEmpty {
            world.now = world.now + .milliseconds(100)
            for id in world.openConnections { world.take(on: id) }
            if browser.received.count < pushed, browser.underWay.count < 2 { browser.poll(0, &world) }
            if world.now - testStart > .seconds(20) { world.deadline() }
            world.endOfTick()
            browser.read(world)
        }
        #expect(browser.received == Array(0..<pushed), "seed \(seed): what the server has sent")
        #expect(
            world.posted == (0..<browser.sentCount).map { Int64($0) },
            "seed \(seed): what the client has sent")
        #expect(!browser.isClosed && !world.isClosed, "seed \(seed)")
    }
}
