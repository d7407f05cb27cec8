import PandoBytes
import PandoRandom
import PandoTree
import Testing

/// A key is two words in one of four forms: keys of any forms must behave like their
/// texts.
@Suite struct KeyStorage {
    private static let alphabet = Array(
        "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz".utf8)

    @Test func sizeIsSixteenBytes() {
        #expect(MemoryLayout<Key>.size == 16 && MemoryLayout<Key>.stride == 16)
        #expect(MemoryLayout<Key?>.size == 16)
        #expect(MemoryLayout<Children.Entry>.stride == 32)
    }

    @Test(arguments: 0..<12) func behavesLikeItsText(seed: Int) {
        var maker = TextMaker(generator: SeededGenerator(seed: seed))
        let texts = (0..<260).map { _ in maker.text() }
        let keys = texts.map { Key(unchecked: Text($0)) }
        let models = texts.map { KeyModel($0) }
        for (key, model) in zip(keys, models) {
            if let flaw = flaw(key, model) { Issue.record("\(model.text.debugDescription): \(flaw)") }
        }
        for (a, x) in zip(keys, models) {
            for (b, y) in zip(keys, models) {
                let order = KeyModel.compare(x, y)
                let isRight =
                    Key.compare(a, b).signum() == order && (a < b) == (order < 0)
                    && (a == b) == (x.bytes == y.bytes)
                    && (order == 0) == (x.bytes == y.bytes) && (a != b || a.hashValue == b.hashValue)
                if !isRight { Issue.record("\(x.text.debugDescription) \(y.text.debugDescription)") }
            }
        }
        #expect(Set(keys).count == Set(models.map(\.bytes)).count)
        #expect(keys.sorted().map(\.string) == models.sorted { KeyModel.compare($0, $1) < 0 }.map(\.text))
    }

    /// All properties of one key.
    private func flaw(_ key: Key, _ model: KeyModel) -> String? {
        let bytes = model.bytes
        if !key.string.utf8.elementsEqual(bytes) { return "spelled \(key.string)" }
        if key.utf8Count != bytes.count { return "\(key.utf8Count) bytes" }
        if key.integer != model.integer { return "the integer \(String(describing: key.integer))" }
        if key.withBytes({ span in span.indices.map { span[$0] } }) != bytes { return "lends other bytes" }
        let again = Key(unchecked: bytes.span)
        if again != key || again.hashValue != key.hashValue { return "another key when made from bytes" }
        var written: [UInt8] = []
        written.append(utf8: key)
        written.append(counted: key)
        written.append(jsonName: key)
        var expected = bytes
        expected.append(counted: model.text)
        expected.append(json: Text(model.text))
        return written == expected ? nil : "written as \(written)"
    }

    /// Keys from words are equal to those from bytes, whatever follows them; for keys that may be integers,
    /// or are longer, there is no result.
    @Test func fromWords() {
        var random = SeededGenerator(seed: 7)
        let legal = (UInt8(0x20)..<0x7F).filter { Key.isLegal([$0].span) }
        for _ in 0..<20_000 {
            let bytes = (0..<16).map { _ in random.pick(legal) }
            let (first, second) = unsafe bytes.withUnsafeBytes {
                unsafe (
                    $0.loadUnaligned(as: UInt64.self), $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
                )
            }
            for count in [0, 1, 7, 8, 9, 14, 15, 16] {
                let key = Key(plain: first.littleEndian, second.littleEndian, byteCount: count)
                if bytes[0] <= UInt8(ascii: "9") || count == 0 || count == 16 {
                    #expect(key == nil)
                } else {
                    #expect(key == Key(unchecked: bytes.span.extracting(first: count)))
                }
            }
        }
    }

    /// Every byte at every position of a text of twenty: in the push alphabet or next to it, UTF-8 or not.
    @Test func oneCharacterOutsideThePushAlphabet() {
        for place in 0..<20 {
            for byte in UInt8.min...UInt8.max {
                var bytes = Array("-NjEtLV0abcXYZ_z-059".utf8)
                bytes[place] = byte
                let key = Key(unchecked: bytes.span)
                let text = String(decoding: bytes, as: UTF8.self)
                #expect(key.string.utf8.elementsEqual(text.utf8) && key == Key(unchecked: Text(text)))
                #expect(key.utf8Count == (byte < 0x80 ? 20 : 22))
            }
        }
    }

    /// No bytes trap, and a key is always UTF-8.
    @Test(arguments: 0..<8) func randomBytes(seed: Int) {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<3000 {
            let bytes = (0..<Int.random(in: 0...30, using: &generator)).map { _ in
                generator.one(in: 3)
                    ? UInt8.random(in: 0...255, using: &generator) : generator.pick(Self.alphabet)
            }
            let repaired = String(decoding: bytes, as: UTF8.self)
            let key = Key(unchecked: bytes.span)
            #expect(key.string.utf8.elementsEqual(repaired.utf8))
        }
    }

    /// Each byte alone, and at each position of texts of up to three words. The initialiser for legal bytes
    /// agrees.
    @Test func legalityOfBytes() {
        let forbidden = Set((0..<0x20) + [0x7F] + Array(".#$[]/".utf8))
        for count in [1, 2, 3, 4, 7, 8, 9, 15, 16, 20, 24] {
            for place in 0..<count {
                for byte in UInt8(0)..<0x80 {
                    var bytes = [UInt8](repeating: UInt8(ascii: "x"), count: count)
                    bytes[place] = byte
                    let (isLegal, key) = (Key.isLegal(bytes.span), Key(legal: bytes.span))
                    #expect(isLegal == !forbidden.contains(byte), "\(byte) in \(place) of \(count)")
                    #expect((key != nil) == isLegal && (key == nil || key == Key(unchecked: bytes.span)))
                }
            }
        }
        let marks = Array(" !\"%&'()*+,-09:;<=>?@AZ\\^_`az{|}~éÿ🐵\u{80}".utf8)
        let isLegal = Key.isLegal(marks.span)
        #expect(isLegal)
    }

    /// Ids whose characters are all digits are integers, also when they are generated.
    @Test func pushIDsThatAreIntegers() {
        func generated(_ milliseconds: Int64, _ high: UInt8, _ low: UInt64) -> Key {
            var generator = PushIDGenerator()
            return generator.next(milliseconds: milliseconds, random: .init(high: high, low: low))
        }
        // 0 is digit 1 of the alphabet, `-` digit 0.
        #expect(generated(0x0410_4104_1041, 0x04, 0x1041_0410_4104_1041) == "00000000000000000000")
        #expect(generated(0x0410_4104_1041, 0x04, 0x1041_0410_4104_1041).integer == 0)
        #expect(generated(0x0010_4104_1041, 0x04, 0x1041_0410_4104_1042) == "-0000000000000000001")
        #expect(generated(0x0010_4104_1041, 0x04, 0x1041_0410_4104_1042).integer == -1)
        #expect(generated(0x0010_4104_1041, 0x04, 0x1041_0410_4104_1040) == "-000000000000000000-")
        #expect(generated(0x0010_4104_1041, 0x04, 0x1041_0410_4104_1040).integer == nil)
    }

    /// Many references to one long text, made and released in every order.
    @Test func longKeyIsFreedWithItsLastReference() {
        var generator = SeededGenerator(seed: 1)
        var keys: [Key?] = Array(repeating: nil, count: 50)
        var texts: [String?] = Array(repeating: nil, count: 50)
        for round in 0..<20_000 {
            let (a, b) = (
                Int.random(in: 0..<50, using: &generator), Int.random(in: 0..<50, using: &generator)
            )
            switch generator.pick([0, 1, 2]) {
            case 0:
                texts[a] = String(repeating: "k", count: 12 + round % 30) + "\(round)"
                keys[a] = texts[a].map { Key(unchecked: Text($0)) }
            case 1: (keys[a], texts[a]) = (keys[b], texts[b])
            default: (keys[a], texts[a]) = (nil, nil)
            }
        }
        #expect(keys.map { $0?.string } == texts)
    }
}

/// The definition (realtime §7.3): integers first, by value, then by length; then text by UTF-16 code
/// units.
private struct KeyModel {
    let text: String
    let bytes: [UInt8]
    let integer: Int64?

    init(_ text: String) {
        self.text = text
        bytes = Array(text.utf8)
        let digits = bytes.first == UInt8(ascii: "-") ? bytes.dropFirst() : bytes[...]
        let isSpelled = !digits.isEmpty && digits.allSatisfy { $0 >= 0x30 && $0 <= 0x39 }
        let value = isSpelled ? Double(text) ?? .infinity : .infinity
        integer = value >= -0x1p31 && value < 0x1p31 ? Int64(value) : nil
    }

    static func compare(_ a: KeyModel, _ b: KeyModel) -> Int {
        switch (a.integer, b.integer) {
        case (let x?, let y?) where x != y: return x < y ? -1 : 1
        case (_?, _?) where a.bytes.count != b.bytes.count: return a.bytes.count < b.bytes.count ? -1 : 1
        case (_?, nil): return -1
        case (nil, _?): return 1
        default:
            if a.text.utf16.elementsEqual(b.text.utf16) { return 0 }
            return a.text.utf16.lexicographicallyPrecedes(b.text.utf16) ? -1 : 1
        }
    }
}

/// Texts of all forms, similar to each other: most are an earlier one with a change.
private struct TextMaker {
    var generator: SeededGenerator
    private var made: [String] = [""]

    init(generator: SeededGenerator) {
        self.generator = generator
    }

    private static let lengths = [0, 1, 3, 4, 7, 8, 9, 14, 15, 16, 17, 19, 20, 20, 20, 21, 24, 25, 40, 768]
    private static let scalars: [Unicode.Scalar] = [
        "-", "0", "9", "A", "Z", "_", "a", "z", "\0", "\u{1}", " ", ",", ".", "/", ":", "@", "[", "^", "`",
        "{", "\u{7F}",
        "\u{80}", "é", "\u{7FF}", "\u{800}", "\u{D7FF}", "\u{E000}", "\u{FFFD}", "\u{FFFF}", "\u{10000}", "🐵",
        "\u{10FFFF}",
    ]

    mutating func text() -> String {
        let text =
            switch Int.random(in: 0..<8, using: &generator) {
            case 0: fresh(of: "-09AZ_az")
            case 1: fresh(of: "\u{E000}\u{FFFF}\u{10000}🐵é")
            case 2: integer()
            default: changed(generator.pick(made))
            }
        made.append(text)
        return text
    }

    /// Complete characters, of a length in bytes at which the storage changes, or a little less.
    private mutating func fresh(of scalars: String) -> String {
        let scalars = Array(scalars.unicodeScalars)
        let byteCount = generator.pick(Self.lengths)
        var view = String.UnicodeScalarView()
        var left = byteCount
        while left > 0 {
            let scalar = generator.pick(scalars)
            if UTF8.width(scalar) > left { break }
            left -= UTF8.width(scalar)
            view.append(scalar)
        }
        return String(view)
    }

    private mutating func integer() -> String {
        let sign = generator.pick(["", "", "-"])
        let zeros = String(
            repeating: "0", count: generator.pick([0, 0, 1, 2, 5, 8, 13, 14, 18, 19, 23, 24, 30, 760]))
        let digits = generator.pick([
            "", "0", "1", "7", "42", "2147483646", "2147483647", "2147483648", "2147483649", "99999999999",
        ])
        return sign + zeros + digits
    }

    private mutating func changed(_ text: String) -> String {
        var scalars = Array(text.unicodeScalars)
        let place = Int.random(in: 0...scalars.count, using: &generator)
        switch Int.random(in: 0..<5, using: &generator) {
        case 0: scalars.insert(generator.pick(Self.scalars), at: place)
        case 1: if place < scalars.count { scalars.remove(at: place) }
        case 2: if place < scalars.count { scalars[place] = generator.pick(Self.scalars) }
        case 3: scalars = Array(scalars[..<place])
        default: scalars += Array(generator.pick(made).unicodeScalars.prefix(12))
        }
        let result = scalars.reduce(into: "") { $0.unicodeScalars.append($1) }
        return result.utf8.count <= 800 ? result : text
    }
}
