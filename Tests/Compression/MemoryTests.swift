import CZlib
import PandoBytes
import PandoRandom
import Testing

@testable import PandoCompression

@Suite struct CompressionMemoryTests {
    /// What zlib has allocated after real work is within the bound, and the bound is not far from it.
    @Test(arguments: 8...15)
    func streamsTakeWhatTheArithmeticSays(windowBits: Int) throws {
        var generator = SeededGenerator(seed: windowBits)
        let bytes = [UInt8](sample: 200_000, &generator)
        for memoryLevel in 1...9 {
            let deflater = try Deflater(.raw(windowBits: windowBits), memoryLevel: memoryLevel)
            var packed: [UInt8] = []
            deflater.deflate(bytes.rawSpan, flush: .sync, into: &packed)
            let bound = CompressionMemory.deflaterByteCount(windowBits: windowBits, memoryLevel: memoryLevel)
            #expect(deflater.memoryByteCount <= bound)
            #expect(deflater.memoryByteCount >= bound - (10 << 10), "memory level \(memoryLevel)")

            let inflater = try Inflater(.raw(windowBits: windowBits))
            var output: [UInt8] = []
            var offset = 0
            _ = try inflater.inflate(packed.rawSpan, from: &offset, atMost: 1 << 20, into: &output)
            #expect(output == bytes)
            let most = CompressionMemory.inflaterByteCount(windowBits: windowBits)
            #expect(inflater.memoryByteCount <= most)
            #expect(inflater.memoryByteCount >= most - (10 << 10))
        }
    }

    @Test func budgetGrantsUpToItsLimit() {
        let budget = CompressionBudget(byteLimit: 100)
        var held = [Holder(budget.grant(60))]
        #expect(held[0].byteCount == 60)
        #expect(Holder(budget.grant(41)).byteCount == nil)
        held.append(Holder(budget.grant(40)))
        #expect(held[1].byteCount == 40)
        #expect(Holder(budget.grant(0)).byteCount == 0)
        #expect(budget.usedByteCount == 100)
        held.removeFirst()
        #expect(budget.usedByteCount == 40)
        held.removeFirst()
        #expect(budget.usedByteCount == 0)
        #expect(Holder(CompressionBudget(byteLimit: 0).grant(1)).byteCount == nil)
    }
}

private final class Holder {
    private let grant: CompressionBudget.Grant?

    /// nil where nothing was granted.
    let byteCount: Int?

    init(_ grant: consuming CompressionBudget.Grant?) {
        if let granted = consume grant {
            byteCount = granted.byteCount
            self.grant = consume granted
        } else {
            byteCount = nil
            self.grant = nil
        }
    }
}

@Suite struct WindowTests {
    /// zlib has no raw deflate with 8 bits; that with 9 keeps to 256 bytes. The judge is zlib's inflater with
    /// a window of exactly that size, which gets one byte of output at a time, so that it knows no others.
    @Test(arguments: 8...15)
    func referencesStayWithinTheWindow(windowBits: Int) throws {
        var generator = SeededGenerator(seed: 100 + windowBits)
        for level in 1...9 {
            let deflater = try Deflater(.raw(windowBits: windowBits), level: level)
            guard let judge = unsafe pando_inflate_new(-Int32(windowBits)) else {
                Issue.record("no memory")
                return
            }
            defer { unsafe pando_inflate_free(judge) }
            for _ in 0..<3 {
                let message = [UInt8](sample: 5000, &generator)
                var packed: [UInt8] = []
                deflater.deflate(message.rawSpan, flush: .sync, into: &packed)
                #expect(try unsafe inflateByteByByte(packed, judge) == message, "level \(level)")
            }
        }
    }

    private func inflateByteByByte(_ packed: [UInt8], _ stream: OpaquePointer) throws -> [UInt8] {
        var output: [UInt8] = []
        var offset = 0
        while true {
            var byte: UInt8 = 0
            let step = unsafe packed[offset...].withUnsafeBytes { input in
                unsafe withUnsafeMutableBytes(of: &byte) { target in
                    unsafe pando_inflate_step(
                        stream, input.baseAddress, input.count, target.baseAddress, target.count)
                }
            }
            try #require(step.status == PANDO_ZLIB_OK)
            offset += step.consumed
            if step.written == 0, offset == packed.count { return output }
            if step.written == 1 { output.append(byte) }
        }
    }

    /// A final block ends the stream; the next one continues in the same window, at the next byte.
    @Test func inflatingContinuesAfterALastBlock() throws {
        // RFC 7692 §7.2.3.4 "Hello" in a final block, then RFC 7692 §7.2.3.2: a reference to it.
        let stream: [UInt8] = [0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0xF2, 0x00, 0x11, 0x00, 0x00]
        let inflater = try Inflater(.raw(windowBits: 15))
        var output: [UInt8] = []
        var offset = 0
        #expect(try inflater.inflate(stream.rawSpan, from: &offset, atMost: 99, into: &output) == .end)
        #expect(offset == 7 && !inflater.isAtBlockEnd)
        inflater.continueAfterLastBlock()
        #expect(try inflater.inflate(stream.rawSpan, from: &offset, atMost: 99, into: &output) == .needsInput)
        #expect(String(decoding: output, as: UTF8.self) == "HelloHello")
    }
}
