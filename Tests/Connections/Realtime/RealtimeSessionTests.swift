import PandoBytes
import PandoRules
import PandoTree
import PandoWire
import Testing

@testable import PandoConnections
@testable import PandoDatabase
@testable import PandoIdentity

/// As whom a client acts (auth §2.4, realtime §4.7).
@Suite struct AskedCredentialTests {
    private static let bob = Credential(authVariable: Text(#"{"uid":"bob"}"#))

    @Test(
        arguments: [
            // identity       noauth   authvar              acts as; nil for a refusal
            (user("ada"), false, nil, user("ada").credential),
            (user("ada"), true, nil, nil),
            (user("ada"), false, #"{"uid":"bob"}"#, nil),
            (administrator, false, nil, .admin),
            (administrator, true, nil, .anonymous),
            (administrator, true, #"{"uid":"bob"}"#, .anonymous),
            (administrator, false, #"{"uid":"bob"}"#, bob),
        ] as [(Identity, Bool, String?, Credential?)])
    func realtime(
        identity: Identity, isUnauthenticated: Bool, variable: String?, expected: Credential?
    ) {
        let asked = AuthenticationRequest(
            token: "T", isUnauthenticated: isUnauthenticated, authVariable: variable.map { node($0) })
        #expect((try? identity.credential(asking: asked)) == expected)
    }
}

/// Which messages ask something of what carries them.
@Suite struct RealtimeSessionTests {
    private func outcome(of message: String) -> (RealtimeSession.Outcome, ConnectionContext) {
        var session = RealtimeSession(.init(1))
        var context = ConnectionContext(ConnectionSettings(), now: testStart)
        let bytes = Array(message.utf8)
        return (session.receive(bytes.rawSpan, &context), context)
    }

    @Test(
        arguments: [
            (control("p"), .ping), (control("a"), .upgrade), (control("n"), .endOfTransmission),
            (control("x"), .nothing),
            (putMessage(1), .nothing), ("", .malformed), ("null", .malformed), (#"{"t":"d"}"#, .malformed),
        ] as [(String, RealtimeSession.Outcome)])
    func outcomes(message: String, expected: RealtimeSession.Outcome) {
        #expect(outcome(of: message).0 == expected)
    }

    /// A client that sends nothing but what is not posted takes its turns as all others.
    @Test(arguments: ["p", "x"])
    func controlMessagesCountInTheWindow(verb: String) {
        var session = RealtimeSession(.init(1))
        var context = ConnectionContext(ConnectionSettings(), now: testStart)
        let bytes = Array(control(verb).utf8)
        var count = 0
        while !session.isFull, count < 1000 {
            _ = session.receive(bytes.rawSpan, &context)
            count += 1
        }
        #expect(count == 2 * RequestWindow.requestLimit)
        #expect(context.messages.map(\.summary) == ["window mark", "window mark"])
        session.windowMarkReturned()
        #expect(!session.isFull)
    }

    /// Up to 64 KiB a message is parsed here; a larger one by a worker, whichever way it came.
    @Test(arguments: [(64 << 10, false), ((64 << 10) + 1, true)])
    func sizeFromWhichOnAWorkerParses(byteCount: Int, isParsedElsewhere: Bool) {
        let frame = putMessage(1, "/a", "\"\"")
        let message = putMessage(
            1, "/a", "\"" + String(repeating: "v", count: byteCount - frame.utf8.count) + "\"")
        #expect(message.utf8.count == byteCount)
        let (_, context) = outcome(of: message)
        #expect(context.actions.map(\.summary) == (isParsedElsewhere ? ["parse \(byteCount) bytes"] : []))
        var session = RealtimeSession(.init(1))
        var other = ConnectionContext(ConnectionSettings(), now: testStart)
        _ = session.receive(Array(message.utf8), &other)
        #expect(other.actions.map(\.summary) == context.actions.map(\.summary))
        #expect(
            session.isFull == isParsedElsewhere
                && session.parsingByteCount == (isParsedElsewhere ? byteCount : 0))
    }

    /// The bytes of a message count against backpressure, once.
    @Test func postedBytesAreThoseOfTheMessage() {
        var (_, context) = outcome(of: putMessage(1))
        #expect(context.takePostedByteCount() == putMessage(1).utf8.count)
    }

    @Test func refusalOfAnOversizedReplyNamesItsRequest() {
        #expect(text(largeReply(9).refusal).hasPrefix(#"{"t":"d","d":{"r":9,"b":{"s":"too_big","d":""#))
        #expect(text(largePush().refusal).hasPrefix(#"{"t":"c","d":{"t":"e","d":""#))
    }
}
