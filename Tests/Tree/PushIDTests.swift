import PandoBytes
import PandoRandom
import PandoTree
import Testing

@Suite struct PushIDs {
    typealias Bits = PushIDGenerator.RandomBits
    static let none = Bits(high: 0, low: 0)
    static let all = Bits(high: .max, low: .max)

    /// realtime §13.2
    @Test(
        arguments: [
            (0, "--------", "the epoch"), (1_438_207_442_000, "-JvQpzlF", "a vector"),
            (1_700_000_000_000, "-NjEtLV-", "a vector"),
            (1_700_000_000_001, "-NjEtLV0", "a millisecond later"),
            ((1 << 48) - 1, "zzzzzzzz", "the last one"), (.max, "zzzzzzzz", "beyond the last"),
            (-1, "--------", "before the epoch"),
            (.min, "--------", "long before the epoch"),
        ] as [(Int64, String, String)])
    func timePart(milliseconds: Int64, text: String, reason: String) {
        var generator = PushIDGenerator()
        #expect(
            generator.next(milliseconds: milliseconds, random: Self.none).string == text + "------------",
            "\(reason)")
    }

    @Test(
        arguments: [
            (none, "------------", "nothing"), (all, "zzzzzzzzzzzz", "everything"),
            (Bits(high: 0, low: 1), "-----------0", "the lowest bit"),
            (Bits(high: 0, low: 1 << 60), "-0----------", "bit 60"),
            (Bits(high: 0, low: 15 << 60), "-E----------", "the upper four bits of low"),
            (Bits(high: 1, low: 0), "-F----------", "the lowest bit of high"),
            (Bits(high: 128, low: 0), "V-----------", "the highest bit"),
        ] as [(Bits, String, String)])
    func randomPart(bits: Bits, text: String, reason: String) {
        var generator = PushIDGenerator()
        #expect(generator.next(milliseconds: 0, random: bits).string == "--------" + text, "\(reason)")
    }

    /// Within a millisecond the random part is incremented, with carry.
    @Test(
        arguments: [
            (Bits(high: 0, low: 0), "-----------0", "no carry"),
            (Bits(high: 0, low: 63), "----------0-", "into the next digit"),
            (Bits(high: 7, low: .max), "1-----------", "from low into high"),
        ] as [(Bits, String, String)])
    func counting(bits: Bits, next: String, reason: String) {
        var generator = PushIDGenerator()
        _ = generator.next(milliseconds: 5, random: bits)
        #expect(generator.next(milliseconds: 5, random: Self.all).string.dropFirst(8) == next, "\(reason)")
    }

    @Test func lastRandomPartIsFollowedByTheNextMillisecond() {
        var generator = PushIDGenerator()
        let last = generator.next(milliseconds: 1_700_000_000_000, random: Self.all)
        #expect(
            generator.next(milliseconds: 1_700_000_000_000, random: Self.all).string == "-NjEtLV0------------"
        )
        // The clock reaches the millisecond that was used in advance: still no key twice.
        let next = generator.next(milliseconds: 1_700_000_000_001, random: Self.none)
        #expect(next.string == "-NjEtLV0-----------0")
        #expect(last < next)
    }

    @Test(arguments: 0..<20) func keysStrictlyIncrease(seed: Int) {
        var random = SeededGenerator(seed: seed)
        var generator = PushIDGenerator()
        var now: Int64 = 1_700_000_000_000
        var previous: Key = "--------------------"
        for _ in 0..<2000 {
            // The clock stays, advances, and goes back.
            now += random.pick([0, 0, 0, 1, 7, -3])
            let bits =
                random.one(in: 4)
                ? Self.all : Bits(high: .random(in: 0...255, using: &random), low: random.next())
            let key = generator.next(milliseconds: now, random: bits)
            #expect(previous < key)
            #expect(key.string.utf8.count == 20 && Key.isLegal(key.text))
            previous = key
        }
    }
}
