import PandoBytes
import PandoRandom
import Testing

@testable import PandoCompression

private func gzip(_ bytes: [UInt8], level: Int = Deflater.fastLevel) throws -> [UInt8] {
    var packed: [UInt8] = []
    try Deflater(.gzip, level: level).deflate(bytes.rawSpan, flush: .finish, into: &packed)
    return packed
}

private let sample = Array("{\"b\":1,\"c\":[1,2,3]}".utf8)

/// The output for a body of these pieces, or the problem.
private func inflate(_ pieces: [[UInt8]], byteLimit: Int = 1 << 20) throws(GzipBody.Problem) -> [UInt8] {
    var output: [UInt8] = []
    guard var body = try? GzipBody(byteLimit: byteLimit) else { throw .invalid(.noMemory) }
    for piece in pieces {
        try body.inflate(piece.rawSpan, into: &output)
        #expect(output.count <= byteLimit)
    }
    try body.finish()
    return output
}

private func problem(_ bytes: [UInt8], byteLimit: Int = 1 << 20) -> GzipBody.Problem? {
    do throws(GzipBody.Problem) {
        _ = try inflate([bytes], byteLimit: byteLimit)
        return nil
    } catch {
        return error
    }
}

@Suite struct CompressionTests {
    @Test(arguments: 0..<40)
    func piecesRoundTrip(seed: Int) throws {
        var generator = SeededGenerator(seed: UInt64(seed))
        let count = [0, 1, 100, 5000, 70_000, 600_000][seed % 6]
        let bytes = [UInt8](sample: count, &generator)
        let deflater = try Deflater(.gzip, level: 1 + seed % 9)
        var packed: [UInt8] = []
        for piece in bytes.pieces(&generator, atMost: 1 + count / 3) {
            let flush: Deflater.Flush = Bool.random(using: &generator) ? .none : .sync
            deflater.deflate(piece.rawSpan, flush: flush, into: &packed)
        }
        let nothing: [UInt8] = []
        deflater.deflate(nothing.rawSpan, flush: .finish, into: &packed)
        #expect(try inflate(packed.pieces(&generator, atMost: [1, 7, 5000][seed % 3])) == bytes)
        #expect(try inflate([packed]) == bytes)
    }

    @Test func flushedMessageIsCompleteForTheInflater() throws {
        let deflater = try Deflater(.raw(windowBits: 15))
        let inflater = try Inflater(.raw(windowBits: 15))
        var generator = SeededGenerator(seed: 1)
        for count in [1, 100, 0, 20_000, 3] {
            let message = [UInt8](sample: count, &generator)
            var packed: [UInt8] = []
            deflater.deflate(message.rawSpan, flush: .sync, into: &packed)
            // RFC 7692 §7.2.1: a flush ends with an empty block; without input before it there is no output.
            #expect(count == 0 || packed.suffix(4) == [0, 0, 0xFF, 0xFF])
            var output: [UInt8] = []
            var offset = 0
            let outcome = try inflater.inflate(packed.rawSpan, from: &offset, atMost: 1 << 20, into: &output)
            #expect(outcome == .needsInput && offset == packed.count && output == message)
        }
    }

    @Test func severalMembersAreConcatenated() throws {
        let (one, two) = (Array("{\"a\":".utf8), Array("1}".utf8))
        let both = try gzip(one) + gzip([]) + gzip(two)
        for size in 1...both.count {
            let pieces = stride(from: 0, to: both.count, by: size).map {
                Array(both[$0..<min(both.count, $0 + size)])
            }
            #expect(try inflate(pieces) == one + two)
        }
    }

    /// Every prefix of a body is truncated, anything behind it is refused, and a changed byte is found.
    @Test func bytesThatAreNotGzipAreRefused() throws {
        let packed = try gzip(sample)
        for count in 0..<packed.count {
            #expect(problem(Array(packed[..<count])) == .invalid(.truncated), "\(count)")
        }
        for garbage: [UInt8] in [
            [0], [0x1F], Array("x".utf8), Array(repeating: 0, count: 100), [0x1F, 0x8B, 9],
        ] {
            #expect(problem(packed + garbage) != nil, "\(garbage)")
        }
        #expect(problem(Array("{\"b\":1}".utf8)) == .invalid(.corrupt))
        // Behind the header every bit matters, except those that fill the last byte of the deflated part.
        for index in 10..<packed.count {
            for bit in 0..<8 {
                var changed = packed
                changed[index] ^= 1 << bit
                guard problem(changed) == nil else { continue }
                #expect(index == packed.count - 9, "byte \(index), bit \(bit)")
                #expect(try inflate([changed]) == sample)
            }
        }
    }

    /// Overhead that output pays for is no excess, however much there is: a stored block has five bytes of it
    /// (RFC 1951 §3.2.4). What gives next to no output is refused as before.
    @Test(
        arguments: [
            // bytes of each stored block, accepted
            (100, true), (24, true), (10, false), (0, false),
        ])
    func storedBlocks(byteCount: Int, isAccepted: Bool) throws {
        let (low, high) = (UInt8(byteCount & 255), UInt8(byteCount >> 8))
        let block = [0, low, high, ~low, ~high] + [UInt8](repeating: 0x20, count: byteCount)
        // An empty file has ten bytes of head.
        var packed = Array(try gzip([]).prefix(10))
        // 50 KB of overhead.
        for _ in 0..<10_000 { packed += block }
        let inflater = try Inflater(.gzip)
        var isRefused = false
        var output: [UInt8] = []
        var offset = 0
        do throws(CompressionError) {
            while offset < packed.count {
                output.removeAll(keepingCapacity: true)
                _ = try inflater.inflate(packed.rawSpan, from: &offset, atMost: 1 << 20, into: &output)
            }
        } catch {
            isRefused = error == .corrupt
        }
        #expect(isRefused == !isAccepted)
    }

    @Test(arguments: [1, 100, 4095, 4096, 4097, 300_000])
    func outputStopsExactlyAtTheLimit(count: Int) throws {
        let packed = try gzip(Array(repeating: 0x78, count: count), level: 9)
        #expect(problem(packed, byteLimit: count) == nil)
        #expect(problem(packed, byteLimit: count - 1) == .tooLarge)
        #expect(problem(packed + packed, byteLimit: 2 * count - 1) == .tooLarge)
        #expect(problem(packed + packed, byteLimit: 2 * count) == nil)
    }

    @Test(arguments: 0..<200)
    func randomBytesNeverTrap(seed: Int) throws {
        var generator = SeededGenerator(seed: UInt64(seed))
        var bytes = try gzip([UInt8](sample: 3000, &generator))
        for _ in 0..<(1 + seed % 5) {
            bytes[Int.random(in: bytes.indices, using: &generator)] = UInt8.random(
                in: 0...255, using: &generator)
        }
        if seed % 2 == 0 { bytes = (0..<200).map { _ in UInt8.random(in: 0...255, using: &generator) } }
        _ = problem(bytes, byteLimit: 5000)
    }
}
