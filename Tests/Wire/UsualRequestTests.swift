import Testing

@testable import PandoWire

/// A request that is written as JavaScript writes it is read without looking for members; whatever departs from that, the
/// general way. A space before the message sends it the general way, so both must say the same of every message.
@Suite struct UsualRequestTests {
    private static let departures = [
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}}}"#,
        #"{"t":"d","d":{"r":-1,"a":"m","b":{"p":"/a","d":{"b":1}}}}"#,
        // Something more, before and behind the parts.
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1},"x":[]}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}},"x":2}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}}} "#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}}"#,
        #"{"t":"d","d":{"r": 1,"a":"p","b":{"p":"/a","d":1}}}"#,
        // Members that come twice: the last counts.
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1},"b":{"p":"/b","d":2}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1},"a":"o"}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1},"a":"p"}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1},"r":2}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}},"t":"c"}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}},"d":{"r":2,"a":"s"}}"#,
        // Faults, also such as a later member mends.
        #"{"t":"d","d":{"r":"1","a":"p","b":{"p":"/a","d":1}}}"#,
        #"{"t":"d","d":{"r":1.5,"a":"p","b":{"p":"/a","d":1}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a"}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a"},"b":{"p":"/a","d":1}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":7,"d":1}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a#","d":1}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":"\ud800"}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":[]}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":nul}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":"#,
        #"{"t":"d","d":{"r":1,"a":"p""#,
        #"{"t":"d","d":{"r":1,"a":"p"}}"#,
        #"{"t":"d","d":{"r":1,"a":"","b":{}}}"#,
        #"{"t":"d","d":{"r":1,"a":7,"b":{}}}"#,
        // Verbs of one letter that are none, or need no body.
        #"{"t":"d","d":{"r":1,"a":"s","b":{"c":{}}}}"#,
        #"{"t":"d","d":{"r":1,"a":"z","b":{}}}"#,
        #"{"t":"d","d":{"r":1,"a":"\u0070","b":{"p":"/a","d":1}}}"#,
    ]

    private func outcome(_ text: String) -> String {
        do {
            return "\(try parse(text))"
        } catch .json(let malformed) {
            return "malformed at \(malformed.byteOffset - (text.first == " " ? 1 : 0))"
        } catch {
            return "\(error)"
        }
    }

    @Test(arguments: departures + Transcript.requests.map(\.line))
    func bothWaysSayTheSame(_ text: String) {
        #expect(outcome(text) == outcome(" " + text))
    }
}
