import PandoTime
import Testing

@testable import PandoReactor

/// In which order a loop flushes its channels, and how many in one tick. Without sockets, and with a clock
/// that only the work moves.
@Suite struct FlushListTests {
    private final class FakeChannel: Pollable {
        let name: String
        let hasMuch: Bool
        var waits: Bool
        var isDue = true
        let flushed: (FakeChannel) -> Void

        init(
            _ name: String, hasMuch: Bool = false, waits: Bool = false,
            _ flushed: @escaping (FakeChannel) -> Void
        ) {
            self.name = name
            self.hasMuch = hasMuch
            self.waits = waits
            self.flushed = flushed
            super.init(descriptor: -1)
        }

        override var hasBulkOutput: Bool { hasMuch }
        override var isPrompt: Bool { waits }
        override var isFlushDue: Bool { isDue }
        override func flushAtEndOfTick() {
            isDue = false
            flushed(self)
        }
    }

    private let clock = ScriptedClock()

    /// - Returns: The names of the channels that each tick flushes, until the list is empty.
    private func ticks(_ list: FlushList, _ flushed: Flushed) -> [[String]] {
        var ticks: [[String]] = []
        while !list.isEmpty, ticks.count < 1000 {
            flushed.names = []
            list.flush(isLast: false)
            ticks.append(flushed.names)
        }
        return ticks
    }

    /// What channels call whose flush takes a millisecond; a tick's share is two.
    private func noteTakingAMillisecond(_ flushed: Flushed) -> (FakeChannel) -> Void {
        { [clock] channel in
            clock.advance(.milliseconds(1))
            flushed.names.append(channel.name)
        }
    }

    private final class Flushed {
        var names: [String] = []
    }

    @Test func repliesComeBeforePushesAndBulkComesLast() {
        let list = FlushList(clock.configuration)
        let flushed = Flushed()
        let note: (FakeChannel) -> Void = { flushed.names.append($0.name) }
        list.append(FakeChannel("much", hasMuch: true, note))
        list.append(FakeChannel("listener", note))
        list.append(FakeChannel("waiting", waits: true, note))
        list.append(FakeChannel("waiting, much", hasMuch: true, waits: true, note))
        list.append(FakeChannel("another listener", note))
        #expect(
            ticks(list, flushed) == [["waiting", "listener", "another listener", "waiting, much", "much"]])
    }

    @Test func aReplyDoesNotWaitForThousandsOfPushes() {
        let list = FlushList(clock.configuration)
        let flushed = Flushed()
        let note = noteTakingAMillisecond(flushed)
        for number in 0..<3000 { list.append(FakeChannel("\(number)", note)) }
        list.flush(isLast: false)
        #expect(flushed.names == (0..<8).map { "\($0)" }, "as many as between two looks at the clock")
        list.append(FakeChannel("reply", waits: true, note))
        list.append(FakeChannel("later", note))
        let ticks = ticks(list, flushed)
        #expect(ticks.first?.first == "reply")
        #expect(
            Array(ticks.joined().dropFirst()) == (8..<3000).map { "\($0)" } + ["later"],
            "each once, in its order")
        #expect(ticks.allSatisfy { $0.count <= 9 })
    }

    /// Those that wait take their share of each tick, and no more.
    @Test func repliesDoNotStarvePushes() {
        let list = FlushList(clock.configuration)
        let flushed = Flushed()
        let note = noteTakingAMillisecond(flushed)
        for _ in 0..<100 { list.append(FakeChannel("reply", waits: true, note)) }
        list.append(FakeChannel("push", note))
        list.append(FakeChannel("much", hasMuch: true, note))
        list.flush(isLast: false)
        #expect(flushed.names == Array(repeating: "reply", count: 8) + ["push", "much"])
    }

    /// What a flush leads to is for the next tick.
    @Test func whatIsWrittenMeanwhileIsFlushedInTheNextTick() {
        let list = FlushList(clock.configuration)
        let flushed = Flushed()
        var leftCount = 3
        func note(_ channel: FakeChannel) {
            flushed.names.append(channel.name)
            leftCount -= 1
            if leftCount > 0 { list.append(FakeChannel(channel.name, waits: channel.waits, note)) }
        }
        list.append(FakeChannel("again", note))
        #expect(ticks(list, flushed) == [["again"], ["again"], ["again"]])
        leftCount = 2
        list.append(FakeChannel("reply", waits: true, note))
        #expect(ticks(list, flushed) == [["reply"], ["reply"]])
    }

    @Test func lastFlushFlushesAll() {
        let list = FlushList(clock.configuration)
        let flushed = Flushed()
        let note = noteTakingAMillisecond(flushed)
        for number in 0..<50 {
            list.append(FakeChannel("\(number)", hasMuch: number % 3 == 0, waits: number % 2 == 0, note))
        }
        list.flush(isLast: true)
        #expect(list.isEmpty)
        #expect(flushed.names.count == 50 && Set(flushed.names).count == 50)
    }

    /// A listener that waits among others for its flush sends a request: the reply is not behind theirs.
    @Test func aChannelThatBecomesPromptIsFlushedFirstAndOnce() {
        let list = FlushList(clock.configuration)
        let flushed = Flushed()
        let note = noteTakingAMillisecond(flushed)
        let channels = (0..<100).map { FakeChannel("\($0)", note) }
        for channel in channels { list.append(channel) }
        list.flush(isLast: false)
        channels[90].waits = true
        for _ in 0..<3 { list.append(channels[90]) }
        let ticks = ticks(list, flushed)
        #expect(ticks.first?.first == "90")
        #expect(ticks.joined().filter { $0 == "90" }.count == 1)
        #expect(ticks.joined().count == 92)
    }

    /// Channels that have closed since they were written to take none of a tick's share.
    @Test func closedChannelsTakeNoTime() {
        let list = FlushList(clock.configuration)
        let flushed = Flushed()
        let note = noteTakingAMillisecond(flushed)
        for number in 0..<1000 {
            let channel = FakeChannel("\(number)", hasMuch: number % 2 == 0, note)
            list.append(channel)
            channel.isDue = false
        }
        list.append(FakeChannel("open", note))
        list.append(FakeChannel("open, much", hasMuch: true, note))
        list.flush(isLast: false)
        #expect(flushed.names == ["open", "open, much"] && list.isEmpty)
    }
}
