import PandoBytes
import PandoRandom
import Testing

@testable import PandoRules

/// The linear searches agree with the naive ones.
@Test(arguments: 0..<8 as Range<UInt64>)
func searching(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    func text(_ count: Int) -> String {
        (0..<count).map { _ in generator.pick(["a", "a", "b", "é"]) }.joined()
    }
    for _ in 0..<400 {
        let whole = text(Int.random(in: 0...80, using: &generator))
        let part =
            generator.one(in: 3)
            ? String(whole.unicodeScalars.dropFirst(Int.random(in: 0...20, using: &generator)).prefix(30))
            : text(Int.random(in: 0...30, using: &generator))
        let (bytes, piece) = (Array(whole.utf8), Array(part.utf8))
        let places = (0...bytes.count).filter { bytes[$0...].starts(with: piece) }
        #expect(Text(whole).contains(Text(part)) == !places.isEmpty)
        #expect(Text(whole).hasPrefix(Text(part)) == (places.first == 0))
        #expect(Text(whole).hasSuffix(Text(part)) == (places.last == bytes.count - piece.count))
        #expect(Text(whole).utf16Count == whole.utf16.count)
        var (expected, index): ([UInt8], Int) = ([], 0)
        while index < bytes.count {
            if !piece.isEmpty, bytes[index...].starts(with: piece) {
                expected += Array("<>".utf8)
                index += piece.count
            } else {
                expected.append(bytes[index])
                index += 1
            }
        }
        let replaced = Text(whole).replacing(Text(part), with: "<>", byteLimit: 10_000)
        #expect(replaced?.string == String(decoding: expected, as: UTF8.self))
    }
}

@Test(
    arguments: [
        (0, "0"), (-0.0, "0"), (1, "1"), (-1, "-1"), (1.5, "1.5"), (100, "100"), (1e15, "1000000000000000"),
        (1e16, "10000000000000000"), (1e20, "100000000000000000000"), (1e21, "1e+21"), (1.5e21, "1.5e+21"),
        (-1e100, "-1e+100"),
        (0.1, "0.1"), (0.001, "0.001"), (1e-6, "0.000001"), (1.5e-6, "0.0000015"), (1e-7, "1e-7"),
        (1.25e-7, "1.25e-7"),
        (.leastNonzeroMagnitude, "5e-324"), (1.7976931348623157e308, "1.7976931348623157e+308"),
        (123456.789, "123456.789"),
        (9_007_199_254_740_992, "9007199254740992"), (1.2345678901234568e19, "12345678901234567000"),
        (.nan, "NaN"), (.infinity, "Infinity"), (-.infinity, "-Infinity"), (4.35, "4.35"), (1e-5, "0.00001"),
    ] as [(Double, String)])
func numbersPrintAsInJavaScript(value: Double, text: String) {
    #expect(numberText(value) == text)
}
