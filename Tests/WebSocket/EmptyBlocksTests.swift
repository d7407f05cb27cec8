import PandoBytes
import PandoCompression
import Testing

@testable import PandoWebSocket

/// Deflate blocks that have codes of their own and no data: to read the codes takes zlib as long as a
/// kilobyte of real data does, and no limit of the output bounds them. No sender writes any.
@Suite struct EmptyBlocksTests {
    /// 90 bytes with eight of them.
    private static let blocks: [UInt8] = {
        var bits: [Int] = []
        func put(_ value: Int, _ count: Int) { bits += (0..<count).map { value >> $0 & 1 } }
        // Not the last; dynamic; 257 literal codes, 1 distance code, 18 code lengths.
        put(0, 1)
        put(2, 2)
        put(0, 5)
        put(0, 5)
        put(14, 4)
        for symbol in [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1] {
            put(symbol == 18 || symbol == 1 ? 1 : 0, 3)
        }
        // 256 lengths of zero, one for the end of the block, one for the distance; then that end.
        put(1, 1)
        put(127, 7)
        put(1, 1)
        put(107, 7)
        put(0, 3)
        let all = Array(repeating: bits, count: 8).flatMap { $0 }
        return stride(from: 0, to: all.count, by: 8).map { start in
            (0..<8).reduce(0) { $0 | UInt8(all[start + $1]) << UInt8($1) }
        }
    }()

    private static func message(groupCount: Int) throws -> [UInt8] {
        var packed: [UInt8] = []
        let deflater = try Deflater(.raw(windowBits: 15))
        deflater.deflate(Array("0".utf8).rawSpan, flush: .sync, into: &packed)
        packed.removeLast(4)
        return Array(repeating: blocks, count: groupCount).flatMap { $0 } + packed
    }

    private static let direction = DeflateAgreement.Direction(takesOver: false, windowBits: 15)

    @Test(arguments: [(0, true), (700, true), (800, false), (25_000, false)])
    func messageMayHaveFewOfThem(groupCount: Int, isAllowed: Bool) throws {
        let inflater = try MessageInflater(Self.direction)
        let message = try Self.message(groupCount: groupCount)
        if isAllowed {
            let output = try inflater.inflate(message.rawSpan, byteLimit: 1 << 20)
            #expect(output == Array("0".utf8))
        } else {
            #expect(throws: ProtocolViolation.invalidDeflateData) {
                try inflater.inflate(message.rawSpan, byteLimit: 1 << 20)
            }
        }
    }

    /// A loop leaves a message with more than a few of them to a worker.
    @Test(arguments: [(8, false), (12, true), (25_000, true)])
    func messageIsDeferred(groupCount: Int, isDeferred: Bool) throws {
        let inflater = try MessageInflater(Self.direction, deferringBeyond: 31 << 10)
        let message = try Self.message(groupCount: groupCount)
        let output = try inflater.inflateUnlessDeferred(message.rawSpan, byteLimit: 1 << 20)
        #expect((output == nil) == isDeferred)
    }

    /// Each message may have some, and uses up what may be inflated in a turn.
    @Test func theyCountAgainstTheBudget() throws {
        let inflater = try MessageInflater(Self.direction, budgetByteCount: 128 << 10)
        let message = try Self.message(groupCount: 8)
        var count = 0
        while !inflater.isBudgetUsedUp, count < 100 {
            _ = try inflater.inflate(message.rawSpan, byteLimit: 1 << 20)
            count += 1
        }
        #expect((2...4).contains(count))
    }

    /// With takeover the stream goes on, and the bytes without output of earlier messages do not add up.
    @Test func shortMessagesDoNotAddUp() throws {
        let inflater = try MessageInflater(DeflateAgreement.Direction(takesOver: true, windowBits: 15))
        let message = try Self.message(groupCount: 0)
        for _ in 0..<10_000 { _ = try inflater.inflate(message.rawSpan, byteLimit: 100) }
    }

    /// The body of a request may have little more of them, and not anew in each member.
    @Test(arguments: [1, 100]) func bodiesMayHaveFewOfThem(memberCount: Int) throws {
        var packed: [UInt8] = []
        let deflater = try Deflater(.gzip)
        deflater.deflate([UInt8]().rawSpan, flush: .finish, into: &packed)
        let head = Array(packed.prefix(10))
        var body: [UInt8] = []
        for _ in 0..<memberCount {
            body += head + Array(repeating: Self.blocks, count: 200 / memberCount).flatMap { $0 }
            body += [0x03, 0x00, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        var gzip = try GzipBody(byteLimit: 1 << 20)
        var output: [UInt8] = []
        #expect(throws: GzipBody.Problem.invalid(.corrupt)) { try gzip.inflate(body.rawSpan, into: &output) }
    }
}
