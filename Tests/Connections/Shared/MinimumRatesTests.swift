import PandoTime
import Testing

@testable import PandoConnections

/// How fast a client takes what it is sent, and how fast a message of it comes.
@Suite struct MinimumRatesTests {
    private enum Look {
        /// So many bytes are acknowledged, or were received, in all.
        case at(Int)
        /// An output begins while nothing, or something, is unsent.
        case begin(unsent: Int)
        case end
    }

    /// Looks each second; a client may be 30 s behind 500 B/s, and, after it has taken much at once, eight
    /// minutes.
    @Test(
        arguments: [
            // bytes at once   every so many seconds   until   too slow at   because
            (0, 1, 1000, 31, "takes nothing"),
            (400, 1, 1000, 155, "takes too little"),
            (500, 1, 1000, nil, "takes just enough"),
            (100_000, 1, 1000, nil, "fast"),
            (64_000, 64, 1000, nil, "1 KB/s: a slow reader's window opens once a minute"),
            (105_472, 115, 1000, nil, "1 KB/s as measured on loopback, whose segments are 64 KiB"),
            (105_472, 210, 1000, nil, "the same at 500 B/s"),
            (60_000, 119, 1000, nil, "just enough in large steps"),
            (60_000, 200, 1000, 151, "large steps that are too few"),
            (100_000, 1, 10, 491, "takes nothing any more: what was taken before buys eight minutes"),
        ] as [(Int, Int, Int, Int?, String)])
    func outputRate(byteCount: Int, period: Int, until end: Int, tooSlowAt: Int?, because: String) {
        var rate = OutputRate()
        var context = ConnectionContext(ConnectionSettings(), now: testStart)
        var found: Int?
        for second in 0...1000 where found == nil {
            context.now = testStart + .seconds(second)
            if second % period == 0, second <= end { context.socket.acknowledgedByteCount += byteCount }
            if rate.isTooSlow(&context) { found = second }
        }
        #expect(found == tooSlowAt, "\(because)")
    }

    @Test(arguments: [(0, false), (1, true)])
    func outputThatBeginsWhileNothingIsUnsentBeginsAnew(unsent: Int, isTooSlow: Bool) {
        var rate = OutputRate()
        var context = ConnectionContext(ConnectionSettings(), now: testStart)
        _ = rate.isTooSlow(&context)
        context.now = second(31)
        var socket = SocketStatus()
        socket.unsentByteCount = unsent
        rate.begin(socket)
        let found = rate.isTooSlow(&context)
        #expect(found == isTooSlow)
        rate.end()
        let afterEnd = rate.isTooSlow(&context)
        #expect(!afterEnd)
    }

    @Test(
        arguments: [
            (0, 31, "nothing comes"), (400, 31, "too little"), (600, nil, "enough"),
        ] as [(Int, Int?, String)])
    func inputRate(bytesPerSecond: Int, tooSlowAt: Int?, because: String) {
        var rate = InputRate()
        var context = ConnectionContext(ConnectionSettings(), now: testStart)
        var found: Int?
        for second in 0...100 where found == nil {
            context.now = testStart + .seconds(second)
            if second > 0 { rate.receivedByteCount += bytesPerSecond }
            if rate.isTooSlow(whileExpected: true, &context) { found = second }
        }
        #expect(found == tooSlowAt, "\(because)")
    }

    /// Between two messages nothing is expected, and the next one has its own time.
    @Test func nothingIsExpected() {
        var rate = InputRate()
        var context = ConnectionContext(ConnectionSettings(), now: testStart)
        for second in 0..<100 {
            context.now = testStart + .seconds(second)
            let isTooSlow = rate.isTooSlow(whileExpected: second % 20 != 0, &context)
            #expect(!isTooSlow)
        }
    }
}

@Suite struct ConnectionContextTests {
    @Test func resultsAreTakenOutOnce() {
        var context = ConnectionContext(ConnectionSettings(), now: testStart)
        context.write([1, 2, 3])
        context.post(.closed(.init(1)), byteCount: 10)
        context.post(.lagging(.init(1)), byteCount: 5)
        #expect(context.socket.unsentByteCount == 3 && context.socket.writtenByteCount == 3)
        #expect(context.hasHeavyMessage, "the end of a session may take long")
        #expect(context.takePostedByteCount() == 15)
        #expect(context.takePostedByteCount() == 0)
        var actions = ContiguousArray<ConnectionAction>()
        context.takeActions(into: &actions)
        #expect(actions.map(\.summary) == ["write 3 bytes"] && context.actions.isEmpty)
    }

    @Test(arguments: [(64 << 10, true), ((64 << 10) + 1, false)])
    func drained(unsent: Int, isDrained: Bool) {
        var context = ConnectionContext(ConnectionSettings(), now: testStart)
        context.socket.unsentByteCount = unsent
        #expect(context.isDrained == isDrained)
    }
}
