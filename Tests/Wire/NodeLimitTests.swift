import PandoBytes
import PandoTree
import Testing

@testable import PandoWire

/// A write of too many nodes is refused with its number, and the connection stays open.
@Suite struct NodeLimitTests {
    private static let many = "[" + Array(repeating: "0", count: 1001).joined(separator: ",") + "]"

    @Test(arguments: [
        #"{"t":"d","d":{"r":7,"a":"p","b":{"p":"/a","d":\#(many)}}}"#,
        #"{"t":"d","d":{"a":"p","b":{"d":\#(many),"p":"/a"},"r":7}}"#,
        #"{"d":{"b":{"d":{"x":\#(many)},"p":"/a"},"a":"m","r":7},"t":"d"}"#,
        #"{"t":"d","d":{"r":7,"a":"o","b":{"p":"/a","d":\#(many)}}}"#,
    ])
    func oversizedWriteIsRefusedWithItsNumber(message: String) throws {
        let bytes = Array(message.utf8)
        guard case .request(let request) = try ClientMessage(parsing: bytes.rawSpan, nodeLimit: 1000) else {
            Issue.record("not a request")
            return
        }
        #expect(request.number == 7)
        guard case .invalid(_, .tooManyNodes) = request.action else {
            Issue.record("\(request.action)")
            return
        }
        guard case .request(let whole) = try ClientMessage(parsing: bytes.rawSpan, nodeLimit: 2000) else {
            return
        }
        if case .invalid = whole.action { Issue.record("refused within the limit") }
    }

    @Test func malformedDataBehindTheLimitClosesTheConnection() {
        let bytes = Array(#"{"t":"d","d":{"r":7,"a":"p","b":{"p":"/a","d":[\#(Self.many),}}}}"#.utf8)
        #expect(throws: MalformedMessage.self) { try ClientMessage(parsing: bytes.rawSpan, nodeLimit: 1000) }
    }
}
