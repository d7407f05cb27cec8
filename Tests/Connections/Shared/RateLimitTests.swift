import PandoTime
import Testing

@testable import PandoConnections

/// How fast a client takes what it is sent, and how fast a message of it comes.
@Suite struct RateLimitTests {
    private enum Look {
        /// So many bytes are acknowledged, or were received, in all.
        case at(Int)
        /// An output begins while nothing, or something, is unsent.
        case begin(unsent: Int)
        case end
    }

    /// Looks each second; the window is 30 s, the least 500 B/s.
    @Test(
        arguments: [
            // bytes of each second from the first look on   too slow at   because
            (0, 31, "takes nothing"),
            (480, 31, "takes too little"),
            (500, nil, "takes just enough"),
            (100_000, nil, "fast"),
        ] as [(Int, Int?, String)])
    func outputRate(bytesPerSecond: Int, tooSlowAt: Int?, because: String) {
        var rate = OutputRate()
        var context = ConnectionContext(ConnectionSettings(), now: testStart)
        var found: Int?
        for second in 0...100 where found == nil {
            context.now = testStart + .seconds(second)
            context.socket.acknowledgedByteCount = second * bytesPerSecond
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
