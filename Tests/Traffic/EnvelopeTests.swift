import PandoBytes
import Testing

@testable import PandoTraffic

/// Messages of servers, with members in any order, and cut anywhere.
@Suite struct EnvelopeTests {
    @Test(
        arguments: [
            (#"{"t":"d","d":{"r":12,"b":{"s":"ok","d":""}}}"#, 12, true, true),
            (#"{"t": "d", "d": {"r": 12, "b": {"s": "ok", "d": ""}}}"#, 12, true, false),
            (#"{"d":{"b":{"d":"","s":"ok"},"r":12},"t":"d"}"#, 12, true, false),
            (#"{"t":"d","d":{"r":3,"b":{"s":"datastale","d":"x"}}}"#, 3, false, false),
        ] as [(String, Int, Bool, Bool)])
    func replies(text: String, number: Int, isOK: Bool, isPlain: Bool) throws {
        let bytes = Array(text.utf8)
        guard case .reply(let found, let status, _) = try Envelope.read(bytes.rawSpan) else {
            Issue.record("no reply: \(text)")
            return
        }
        #expect(found == number && (status == nil) == isOK)
        let plain = Envelope.plainReply(bytes.rawSpan)
        #expect(plain == (isPlain ? number : nil))
    }

    @Test func pushes() throws {
        let merge = Array(#"{"t":"d","d":{"b":{"p":"a/b","d":{"x":null,"y/z":2}},"a":"m"}}"#.utf8)
        guard case .push(let action, let body) = try Envelope.read(merge.rawSpan) else {
            Issue.record("no push")
            return
        }
        let (path, members) = try Envelope.members(merge.rawSpan, body)
        #expect(action == "m" && path == "a/b" && members.map(\.0) == ["x", "y/z"])
        #expect(members.map(\.1) == [.empty, .integer(2)])
        let plain = Array(#"{"t":"d","d":{"a":"d","b":{}}}"#.utf8)
        let (first, second) = (Envelope.isPlainPush(plain.rawSpan), Envelope.isPlainPush(merge.rawSpan))
        #expect(first && !second)
    }

    @Test(arguments: ["", "{", "[]", "{}", #"{"t":"d"}"#, #"{"t":"d","d":[]}"#, #"{"t":"d","d":{}}"#])
    func malformedMessageIsRefused(text: String) {
        let bytes = Array(text.utf8)
        #expect(throws: (any Error).self) { _ = try Envelope.read(bytes.rawSpan) }
    }

    @Test(
        arguments: [
            ("+OK\r\n", RESPReply.Kind.other), ("-ERR no\r\n", .error), (":12\r\n", .other),
            ("$-1\r\n", .other),
            ("$5\r\nab\r\nc\r\n", .other), ("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n", .message),
            ("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", .other),
            ("*2\r\n$4\r\npong\r\n$0\r\n\r\n", .other),
        ] as [(String, RESPReply.Kind)])
    func resp(text: String, kind: RESPReply.Kind) {
        let bytes = Array(text.utf8)
        let twice = bytes + bytes
        let whole = RESPReply.read(twice.rawSpan)
        #expect(whole == RESPReply(kind: kind, byteCount: bytes.count))
        // Cut anywhere it is not whole, and nothing else.
        for count in 1..<bytes.count {
            let beginning = Array(bytes.prefix(count))
            let reply = RESPReply.read(beginning.rawSpan)
            #expect(reply == nil, "\(count) bytes")
        }
    }

    @Test func isOKMatchesOnlyAWholeOK() {
        let replies = Array("+OK\r\n+OK\r\n:1\r\n+OK!\r\n+OK\r".utf8)
        let places = replies.indices.filter { RESPReply.isOK(replies.rawSpan, at: $0) }
        #expect(places == [0, RESPReply.okByteCount])
        let isBehindTheEnd = RESPReply.isOK(replies.rawSpan, at: replies.count + 1)
        #expect(!isBehindTheEnd)
    }

    @Test(arguments: ["hello\r\n", "$x\r\n", "*9999999\r\n", "$-2\r\n"])
    func malformedRESPIsRefused(text: String) {
        let bytes = Array(text.utf8)
        let reply = RESPReply.read(bytes.rawSpan)
        #expect(reply?.byteCount == 0)
    }
}
