import PandoBytes
import PandoRandom
import Testing

/// A text is two words in one of two forms: texts of any forms must behave like their
/// bytes.
@Suite struct TextStorage {
    @Test func sizeIsSixteenBytes() {
        #expect(MemoryLayout<Text>.size == 16 && MemoryLayout<Text>.stride == 16)
        #expect(MemoryLayout<Text?>.size == 16)
        // Three bits are left for an enum with a text and seven other cases.
        #expect(MemoryLayout<Beside>.size == 16)
    }

    private enum Beside {
        case text(Text), a(UInt64), b(UInt64), c(UInt64), d(UInt64), e(UInt64), f(UInt64), g(UInt64)
    }

    /// All lengths around the limit of short texts, with characters of one to four bytes at the ends of
    /// words.
    @Test func everyLength() {
        var texts: [String] = []
        for length in 0...40 {
            for character in ["a", "\0", "\u{7F}", "é", "\u{D7FF}", "\u{E000}", "\u{FFFF}", "🐵"] {
                let width = character.utf8.count
                guard width <= length else { continue }
                // At the end, at the beginning, and across each eighth byte.
                for place in Set([length - width, 0, 8 - width, 7, 15, 16 - width / 2, 13]).sorted()
                where place >= 0 && place + width <= length {
                    texts.append(
                        String(repeating: "x", count: place) + character
                            + String(repeating: "y", count: length - place - width))
                }
            }
        }
        check(texts)
    }

    @Test(arguments: 0..<8) func behavesLikeItsBytes(seed: Int) {
        var maker = TextMaker(generator: SeededGenerator(seed: seed))
        check((0..<260).map { _ in maker.text() })
    }

    private func check(_ strings: [String]) {
        let texts = strings.map { Text($0) }
        for (text, string) in zip(texts, strings) {
            if let flaw = flaw(text, string) { Issue.record("\(string.debugDescription): \(flaw)") }
        }
        let bytes = strings.map { Array($0.utf8) }
        let units = strings.map { Array($0.utf16) }
        for a in strings.indices {
            for b in strings.indices {
                let isBefore = units[a].lexicographicallyPrecedes(units[b])
                let isEqual = bytes[a] == bytes[b]
                let isRight =
                    (texts[a] < texts[b]) == isBefore && (texts[a] == texts[b]) == isEqual
                    && Text.compare(texts[a], texts[b]).signum() == (isEqual ? 0 : isBefore ? -1 : 1)
                    && (!isEqual || texts[a].hashValue == texts[b].hashValue)
                if !isRight { Issue.record("\(strings[a].debugDescription) \(strings[b].debugDescription)") }
            }
        }
        #expect(Set(texts).count == Set(bytes).count)
    }

    /// All properties of one text, made in every way.
    private func flaw(_ text: Text, _ string: String) -> String? {
        let bytes = Array(string.utf8)
        if !text.string.utf8.elementsEqual(bytes) { return "spelled \(text.string)" }
        if text.utf8Count != bytes.count { return "\(text.utf8Count) bytes" }
        if text.firstByte != bytes.first { return "begins with \(String(describing: text.firstByte))" }
        if text.withBytes({ span in span.indices.map { span[$0] } }) != bytes { return "lends other bytes" }
        let half = bytes.count / 2
        let joined =
            bytes[..<half].isText && bytes[half...].isText
            ? Text(joining: Text(utf8: Array(bytes[..<half]).span), Text(utf8: Array(bytes[half...]).span))
            : text
        let others = [
            Text(utf8: bytes.span), Text(validating: bytes.span), Text(decoding: bytes.span), joined,
            withCursor(over: bytes.rawSpan) { $0.text(0..<$0.count) },
            withCursor(over: bytes.rawSpan) { $0.validText(0..<$0.count) },
            withCursor(over: bytes.rawSpan) { $0.repairedText(0..<$0.count) },
        ]
        for (index, other) in others.enumerated() where other != text || other?.hashValue != text.hashValue {
            return "another text when made in the way \(index)"
        }
        var written: [UInt8] = []
        written.append(utf8: text)
        written.append(counted: text)
        var expected = bytes
        expected.append(counted: string)
        return written == expected ? nil : "written as \(written)"
    }

    /// A text is always UTF-8; other bytes are refused, or repaired as by `String`.
    @Test(arguments: 0..<8) func randomBytes(seed: Int) {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<3000 {
            let bytes = (0..<Int.random(in: 0...40, using: &generator)).map { _ in
                Int.random(in: 0..<8, using: &generator) == 0
                    ? UInt8.random(in: 0...255, using: &generator)
                    : UInt8.random(in: 0...127, using: &generator)
            }
            let repaired = String(decoding: bytes, as: UTF8.self)
            let isValid = String(validating: bytes, as: UTF8.self) != nil
            let text = Text(validating: bytes.span)
            #expect((text != nil) == isValid && (text == nil || text == Text(repaired)))
            #expect(Text(decoding: bytes.span) == Text(repaired))
        }
    }

    @Test func literals() {
        let byCount: [Text] = ["", "é", "12345678", "123456789012345", "1234567890123456", "🐵🐵🐵🐵🐵🐵🐵🐵"]
        let strings = ["", "é", "12345678", "123456789012345", "1234567890123456", "🐵🐵🐵🐵🐵🐵🐵🐵"]
        #expect(byCount == strings.map { Text($0) })
    }

    /// Many references to one long text, made and released in every order.
    @Test func longTextIsFreedWithItsLastReference() {
        var generator = SeededGenerator(seed: 1)
        var texts: [Text?] = Array(repeating: nil, count: 50)
        var models: [String?] = Array(repeating: nil, count: 50)
        for round in 0..<20_000 {
            let (a, b) = (
                Int.random(in: 0..<50, using: &generator), Int.random(in: 0..<50, using: &generator)
            )
            switch Int.random(in: 0..<3, using: &generator) {
            case 0:
                models[a] = String(repeating: "k", count: 8 + round % 30) + "\(round)"
                texts[a] = models[a].map { Text($0) }
            case 1: (texts[a], models[a]) = (texts[b], models[b])
            default: (texts[a], models[a]) = (nil, nil)
            }
        }
        #expect(texts.map { $0?.string } == models)
    }
}

extension ArraySlice<UInt8> {
    fileprivate var isText: Bool { String(validating: self, as: UTF8.self) != nil }
}

/// Texts of all forms, similar to each other: most are an earlier one with a change.
private struct TextMaker {
    var generator: SeededGenerator
    private var made: [String] = [""]

    init(generator: SeededGenerator) {
        self.generator = generator
    }

    private static let lengths = [0, 1, 3, 4, 7, 8, 9, 14, 15, 16, 17, 23, 24, 31, 32, 33, 100, 5000]
    private static let scalars: [Unicode.Scalar] = [
        "a", "z", "\0", "\u{1}", "\u{7F}", "\u{80}", "é", "\u{301}", "\u{7FF}", "\u{800}", "\u{D7FF}",
        "\u{E000}",
        "\u{FFFD}", "\u{FFFF}", "\u{10000}", "🐵", "\u{10FFFF}",
    ]

    mutating func text() -> String {
        let text =
            Int.random(in: 0..<3, using: &generator) == 0 ? fresh() : changed(pick(made))
        made.append(text)
        return text
    }

    private mutating func pick<Element>(_ elements: [Element]) -> Element {
        elements[Int.random(in: 0..<elements.count, using: &generator)]
    }

    /// Complete characters, of a length in bytes at which the storage changes, or a little less.
    private mutating func fresh() -> String {
        let few = [pick(Self.scalars), pick(Self.scalars), "a"]
        var view = String.UnicodeScalarView()
        var left = pick(Self.lengths)
        while left > 0 {
            let scalar = pick(few)
            if UTF8.width(scalar) > left { break }
            left -= UTF8.width(scalar)
            view.append(scalar)
        }
        return String(view)
    }

    private mutating func changed(_ text: String) -> String {
        var scalars = Array(text.unicodeScalars)
        let place = Int.random(in: 0...scalars.count, using: &generator)
        switch Int.random(in: 0..<4, using: &generator) {
        case 0: scalars.insert(pick(Self.scalars), at: place)
        case 1: if place < scalars.count { scalars.remove(at: place) }
        case 2: if place < scalars.count { scalars[place] = pick(Self.scalars) }
        default: scalars = Array(scalars[..<place])
        }
        return scalars.reduce(into: "") { $0.unicodeScalars.append($1) }
    }
}
