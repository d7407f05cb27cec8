import Testing

@testable import PandoBytes

@Suite struct TextOrder {
    /// Differences at every offset of the eight-byte steps.
    @Test func everyAlignment() {
        for length in 0..<26 {
            for place in 0..<length {
                let before = String(repeating: "a", count: place)
                let after = String(repeating: "z", count: length - place - 1)
                #expect(
                    Text(before + "b" + after) < Text(before + "c" + after)
                        && Text(before + "b" + after) != Text(before + "c" + after))
                #expect(Text(before) < Text(before + "b" + after))
                #expect(Text(before + "🐵" + after) < Text(before + "\u{E000}" + after), "UTF-16 order")
                #expect(Text(before + "\u{D7FF}" + after) < Text(before + "🐵" + after), "UTF-16 order")
                #expect(
                    Text(before + "🐵" + after) < Text(before + "🐶" + after)
                        && Text(before + "\u{E000}" + after) < Text(before + "\u{F000}" + after))
            }
        }
        #expect(Text("") == Text("") && !(Text("") < Text("")) && Text("") < Text("\0"))
        #expect(Text("é") != Text("e\u{301}") && Set([Text("é"), Text("e\u{301}"), Text("é")]).count == 2)
    }
}
