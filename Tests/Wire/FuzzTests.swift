import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoWire

private let samples: [[UInt8]] =
    Transcript.requests.map { Array($0.line.utf8) }
    + [
        #"{"t":"c","d":{"t":"p","d":{}}}"#,
        #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/é/\u00e9\/🐵","d":{"a":[1,-2.5e-3,true,null,"\ud83d\udc35"],"b":{".sv":{"increment":1}}}}}}"#,
        #"{"t":"d","d":{"r":1,"a":"m","b":{"p":"/a","d":{"b/.priority":"x","b/c":[],"b/c":{},"z":{".value":1,".priority":2}}}}}"#,
        #"{"t":"d","d":{"r":1,"a":"q","b":{"p":"/a","q":{"sp":5,"sn":"[MAX_NAME]","sin":false,"ep":"x","i":".value"},"t":9}}}"#,
    ].map { Array($0.utf8) }

/// Any result is allowed, but no trap.
private func survive(_ bytes: [UInt8]) {
    _ = try? parse(bytes)
}

@Test func everyTruncationIsMalformed() {
    for sample in samples {
        for length in 0..<sample.count {
            #expect(throws: MalformedMessage.self) { try parse(Array(sample[..<length])) }
        }
    }
}

@Test(arguments: 0..<4 as Range<UInt64>)
func mutationsNeverTrap(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    let spice =
        Array(#"{}[]",:\/.-+eE0123456789tfnu$# "#.utf8) + [0x00, 0x1F, 0x7F, 0x80, 0xC3, 0xED, 0xF0, 0xFF]
    for sample in samples {
        for _ in 0..<150 {
            var bytes = sample
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                let index = Int.random(in: 0..<bytes.count, using: &generator)
                switch Int.random(in: 0..<5, using: &generator) {
                case 0: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
                case 1: bytes[index] = spice.randomElement(using: &generator) ?? 0
                case 2: bytes.insert(spice.randomElement(using: &generator) ?? 0, at: index)
                case 3: bytes.remove(at: index)
                default:
                    let other = samples.randomElement(using: &generator) ?? []
                    bytes.replaceSubrange(index..., with: other[min(index, other.count)...])
                }
                if bytes.isEmpty { bytes = sample }
            }
            survive(bytes)
        }
    }
}

/// Nesting is bounded everywhere, and data that is only too deep for a database gets an error reply.
@Test(arguments: [("[", "]"), (#"{"a":"#, "}")])
func deepNestingIsRefused(open: String, close: String) throws {
    func nested(_ depth: Int) -> String {
        String(repeating: open, count: depth) + "1" + String(repeating: close, count: depth)
    }
    #expect(try action("p", #"{"p":"/a","d":\#(nested(1000))}"#) == .invalid("p", .tooDeep))
    for depth in [1_100, 5_000, 200_000] {
        for place in [
            #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":*}}}"#, #"{"t":"d","d":{"r":1,"a":"s","b":*}}"#,
            #"{"x":*}"#, #"{"d":{"b":{"d":*,"p":"/"},"a":"m","r":1},"t":"d"}"#,
            #"{"t":"d","d":{"r":1,"a":"m","b":{"p":"/a","d":{"x":*}}}}"#,
            #"{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":{".sv":*}}}}"#,
            #"{"t":"d","d":{"r":1,"a":"q","b":{"p":"/a","ch":{"ps":*}}}}"#,
        ] {
            #expect(throws: MalformedMessage.self, "\(place)") {
                try parse(place.replacing("*", with: nested(depth)))
            }
        }
    }
}
