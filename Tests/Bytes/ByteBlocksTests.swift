import PandoRandom
import Testing

@testable import PandoBytes

@Suite struct ByteBlocksTests {
    /// The addresses of the blocks, and how many bytes each has.
    private static func places(of blocks: ByteBlocks) -> [(address: UInt, byteCount: Int)] {
        var places: [(address: UInt, byteCount: Int)] = []
        blocks.forEachBlock { block in
            let address = unsafe block.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) }
            places.append((address, block.byteCount))
        }
        return places
    }

    private static func bytes(_ blocks: ByteBlocks) -> [UInt8] {
        var bytes: [UInt8] = []
        blocks.forEachBlock { bytes.append($0) }
        return bytes
    }

    private static func random(_ count: Int, using random: inout SeededGenerator) -> [UInt8] {
        // Eight bytes at a time: a million single draws take long without optimisation.
        var bytes: [UInt8] = []
        while bytes.count < count { bytes.append(littleEndian: random.next()) }
        return Array(bytes.prefix(count))
    }

    @Test func noBytes() {
        var blocks = ByteBlocks()
        let none: [UInt8] = []
        blocks.append(none.rawSpan)
        #expect(blocks.isEmpty && blocks.count == 0 && !blocks.takesLongToFree)
        #expect(Self.places(of: blocks).isEmpty)
        #expect(blocks.joined() == [])
    }

    /// Any cut of any bytes gives what one array would have.
    @Test(arguments: 0..<24 as Range<UInt64>)
    func asOneArray(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let longest = [10, 1000, 70_000, 700_000][Int(seed % 4)]
        var (blocks, array) = (ByteBlocks(), [UInt8]())
        for _ in 0..<Int.random(in: 1...8, using: &random) {
            let piece = Self.random(.random(in: 0...longest, using: &random), using: &random)
            blocks.append(piece.rawSpan)
            array += piece
            #expect(blocks.count == array.count && blocks.isEmpty == array.isEmpty)
        }
        #expect(Self.bytes(blocks) == array, "seed \(seed)")
        let copy = blocks
        #expect(blocks.joined() == array, "seed \(seed)")
        #expect(Self.bytes(copy) == array, "a copy keeps its blocks")
    }

    /// Whatever is appended, the bytes before it stay where they are, but for those of the first block.
    @Test(arguments: 0..<12 as Range<UInt64>)
    func nothingIsCopiedTwice(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var blocks = ByteBlocks()
        while blocks.count < 3 * ByteBlocks.blockByteCount {
            let before = Self.places(of: blocks)
            blocks.append([UInt8](repeating: 1, count: .random(in: 1...200_000, using: &random)).rawSpan)
            let after = Self.places(of: blocks)
            #expect(after.count >= before.count)
            for (index, place) in before.enumerated() where index > 0 {
                #expect(after[index].address == place.address, "block \(index), seed \(seed)")
                #expect(after[index].byteCount == place.byteCount || index == before.count - 1)
            }
            if before.count > 1 { #expect(after[0].address == before[0].address, "it is filled") }
        }
    }

    @Test func sizesOfBlocks() {
        var blocks = ByteBlocks()
        let kibibyte = [UInt8](repeating: 7, count: 1 << 10)
        for _ in 0..<(4 << 10) { blocks.append(kibibyte.rawSpan) }
        let sizes = Self.places(of: blocks).map { $0.byteCount >> 10 }
        #expect(sizes == [64, 64, 128, 256, 512, 1024, 1024, 1024])
    }

    /// Small ones are one array, without a copy.
    @Test func firstBlockIsTheWhole() {
        var blocks = ByteBlocks()
        blocks.append([UInt8](repeating: 7, count: ByteBlocks.firstBlockByteCount).rawSpan)
        let places = Self.places(of: blocks)
        #expect(places.map(\.byteCount) == [ByteBlocks.firstBlockByteCount])
        let joined = blocks.joined()
        let address = unsafe joined.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) }
        #expect(address == places[0].address)
    }

    @Test(
        arguments: [
            // bytes                         takes long
            (0, false), (ByteBlocks.firstBlockByteCount, false), (ByteBlocks.blockByteCount, false),
            (ByteBlocks.blockByteCount + 1, true),
        ] as [(Int, Bool)])
    func freeing(byteCount: Int, takesLong: Bool) {
        var blocks = ByteBlocks()
        blocks.append([UInt8](repeating: 7, count: byteCount).rawSpan)
        #expect(blocks.takesLongToFree == takesLong)
    }
}
