import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoWire

/// A request in the form in which JavaScript writes it is read by the common parser, any other by the general
/// one. With a space before it a message is read by the general parser: both must give the same result for
/// every message.
@Suite struct CommonRequestTests {
    private static let departures = [
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}}}"#,
        #"{"t":"d","d":{"r":-1,"a":"m","b":{"p":"/a","d":{"b":1}}}}"#,
        // Additional bytes before and behind the parts.
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1},"x":[]}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}},"x":2}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}}} "#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}}"#,
        #"{"t":"d","d":{"r": 1,"a":"p","b":{"p":"/a","d":1}}}"#,
        // Equal members: the last one counts.
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1},"b":{"p":"/b","d":2}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1},"a":"o"}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1},"a":"p"}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1},"r":2}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}},"t":"c"}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}},"d":{"r":2,"a":"s"}}"#,
        // Faults, also some that a later member replaces.
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
        // The body of a put with other members, in any order.
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1,"h":"x"}}}"#,
        #"{"t":"d","d":{"r":1,"a":"o","b":{"p":"/a","d":1,"h":"x"}}}"#,
        #"{"t":"d","d":{"r":1,"a":"o","b":{"p":"/a","d":1,"h":7}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1,"h":7}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1,"h":"\ud800"}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1,"h":"x","cv":true}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1,"h":"x","cv":false}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1,"h":"x","cv":1}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1,"h":"x","cv":trueish}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1,"cv":true}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"d":1,"p":"/a"}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1,"d":2}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1,"p":"/b"}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1,"h":"x","h":"y"}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a", "d":1}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a/.priority","d":true}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a/.priority","d":7}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":{".sv":"timestamp"}}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21/22/"#
            + #"23/24/25/26/27/28/29/30/31/32","d":{"a":1}}}}"#,
        // Names of one letter that are no actions, or need no body.
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
    func commonAndGeneralParserAgree(_ text: String) {
        #expect(outcome(text) == outcome(" " + text))
    }

    /// Paths are read sixteen bytes at a time up to the end of a segment or an illegal character, and at the
    /// end of a message byte by byte: at any position, the result is that of the path's text.
    @Test(arguments: 0...19)
    func pathIsReadAsItsText(_ position: Int) throws {
        for character in (UInt32(1)...0x7F).compactMap(Unicode.Scalar.init) + ["é", "\u{FFFD}", "😀"] {
            for length in Set([position + 1, 20]) {
                var characters = Array("abcdefgh12345678XYZW".unicodeScalars.prefix(length))
                characters[position] = character
                var path = ""
                path.unicodeScalars.append(contentsOf: characters)
                let expected: String
                do { expected = "\(try Target(wire: Text(path)))" } catch { expected = "\(error)" }
                // Fifty, eleven or four bytes follow the path.
                #expect(
                    try readAsPut(path, #""forty bytes of a value, so many as these.""#) == expected,
                    "\(path.debugDescription)")
                #expect(try readAsPut(path) == expected, "\(path.debugDescription)")
                #expect(try readAsCancel(path) == expected, "\(path.debugDescription)")
            }
        }
    }

    private func quoted(_ text: String) -> String {
        var json: [UInt8] = []
        json.append(json: Text(text))
        return String(decoding: json, as: UTF8.self)
    }

    /// Segments of every length that is read differently, of legal characters, of possible integers, and
    /// of characters that are legal elsewhere; a slash may be escaped.
    @Test(arguments: 0..<6 as Range<UInt64>)
    func anyPathIsReadAsItsText(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let letters = ["abcXYZ_ -", "0123456789", "-0", "aé", "a.", "a#$[]\u{7F}"].map {
            Array($0.unicodeScalars)
        }
        for _ in 0..<4000 {
            let alphabet = letters[Int.random(in: 0..<letters.count, using: &random)]
            var path = ""
            for _ in 0..<Int.random(in: 0...7, using: &random) {
                if Int.random(in: 0..<8, using: &random) > 0 { path += "/" }
                let length = [1, 2, 7, 8, 9, 14, 15, 16, 17, 20, 31, 33][
                    Int.random(in: 0..<12, using: &random)]
                for _ in 0..<length {
                    let plain = Int.random(in: 0..<5, using: &random) > 0
                    let set = plain ? letters[Int.random(in: 0...1, using: &random)] : alphabet
                    path.unicodeScalars.append(set[Int.random(in: 0..<set.count, using: &random)])
                }
            }
            let expected: String
            do { expected = "\(try Target(wire: Text(path)))" } catch { expected = "\(error)" }
            for value in ["1", #""forty bytes of a value, so many as these.""#] {
                #expect(try readAsPut(path, value) == expected, "\(path.debugDescription)")
                let escaped = quoted(path).replacing("/", with: #"\/"#)
                #expect(try readAsPut(quoted: escaped, value) == expected, "\(escaped)")
            }
        }
    }

    private func readAsPut(_ path: String, _ value: String = "1") throws -> String {
        try readAsPut(quoted: quoted(path), value)
    }

    private func readAsPut(quoted path: String, _ value: String) throws -> String {
        switch try parse(#"{"t":"d","d":{"r":1,"a":"p","b":{"p":\#(path),"d":\#(value)}}}"#) {
        case .request(let request):
            switch request.action {
            case .put(let write): "\(write.target)"
            case .invalid(_, let problem): "\(problem)"
            default: "\(request)"
            }
        case let other: "\(other)"
        }
    }

    private func readAsCancel(_ path: String) throws -> String {
        switch try parse(#"{"t":"d","d":{"r":1,"a":"oc","b":{"p":\#(quoted(path))}}}"#) {
        case .request(let request):
            switch request.action {
            case .onDisconnectCancel(let target): "\(target)"
            case .invalid(_, let problem): "\(problem)"
            default: "\(request)"
            }
        case let other: "\(other)"
        }
    }
}
