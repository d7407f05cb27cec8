import PandoTree

/// Which of very many locations were there before, about: a bit for each. Two locations may have the same
/// bit, and once it grows it has forgotten all.
struct SeenLocations {
    /// From 4 KiB to 32 KiB of bits, each time eight times as many.
    private static let leastBitCount = 1 << 15
    private static let mostBitCount = 1 << 18
    private static let growth = 8

    /// Bytes of memory from the first location on.
    static let leastByteCount = leastBitCount / 8

    private var words: [UInt64] = []
    private var count = 0

    /// Bytes of memory.
    var byteCount: Int { words.count * MemoryLayout<UInt64>.stride }

    /// Notes a location.
    /// - Returns: Whether it was not there before.
    mutating func insert(_ path: Path) -> Bool {
        if count * 2 >= bitCount, bitCount < Self.mostBitCount {
            let bitCount = max(Self.leastBitCount, bitCount * Self.growth)
            words = Array(repeating: 0, count: bitCount / UInt64.bitWidth)
            count = 0
        }
        let bit = Int(UInt(bitPattern: path.hashValue) % UInt(bitCount))
        let mask: UInt64 = 1 << (bit % UInt64.bitWidth)
        guard words[bit / UInt64.bitWidth] & mask == 0 else { return false }
        words[bit / UInt64.bitWidth] |= mask
        count += 1
        return true
    }

    private var bitCount: Int { words.count * UInt64.bitWidth }
}
