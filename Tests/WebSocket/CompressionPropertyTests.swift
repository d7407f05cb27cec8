import PandoBytes
import PandoCompression
import PandoRandom
import PandoWebSocket
import Testing

@Suite struct CompressionPropertyTests {
    /// Messages of all sizes, in both roles, with every window and takeover on and off, in frames and pieces
    /// of any size: what is read is what was sent.
    @Test(arguments: 0..<64 as Range<UInt64>)
    func messagesRoundTrip(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let direction = DeflateAgreement.Direction(
            takesOver: seed & 1 == 0, windowBits: 8 + Int(seed >> 1 & 7))
        let role: Role = seed >> 4 & 1 == 0 ? .server : .client
        var options = everything
        options.level = Int.random(in: 1...9, using: &random)
        options.memoryLevel = Int.random(in: 1...9, using: &random)
        options.thresholdByteCount = [0, 0, 100][Int(seed % 3)]
        let deflater = try MessageDeflater(direction, options: options)
        var stream: [UInt8] = []
        var expected: [Seen] = []
        for _ in 0..<Int.random(in: 1...12, using: &random) {
            let count =
                [0, 1, 2, 33, 125, 126, 300, 5000, 65_536, 131_072].randomElement(using: &random) ?? 0
            let message = sample(count, random: &random)
            let key = role == .server ? UInt32.random(in: 0 ... .max, using: &random) : nil
            var whole: [UInt8] = []
            deflater.append(message: .binary, payload: message.rawSpan, to: &whole, maskingKey: key)
            stream += fragments(whole, masked: role == .server, random: &random)
            expected.append(.binary(message))
        }
        for round in 0..<4 {
            let inflater = try MessageInflater(direction)
            var reader = MessageReader(
                role: role, messageByteLimit: 1 << 20, checksText: true, inflater: inflater)
            var seen: [Seen] = []
            var start = 0
            while start < stream.count {
                let most = [stream.count, 5000, 50_000, 100][round]
                let end = min(stream.count, start + Int.random(in: 1...most, using: &random))
                var window = Array(stream[start..<end])
                read(&window, with: &reader, into: &seen)
                start = end
            }
            #expect(seen == expected, "seed \(seed)")
            #expect(reader.isIdle)
        }
    }

    /// Without takeover, a frame depends on its message alone; zlib used directly inflates it.
    @Test(arguments: 0..<16 as Range<UInt64>)
    func sharedFramesAreIdentical(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let shared = SharedCompression(options: everything)
        let other = SharedCompression(options: everything)
        for _ in 0..<10 {
            let windowBits = Int.random(in: 8...15, using: &random)
            let message = sample(Int.random(in: 200...20_000, using: &random), random: &random)
            var frames: [[UInt8]] = []
            for deflater in [
                try shared.deflater(windowBits: windowBits), try other.deflater(windowBits: windowBits),
                try MessageDeflater(.init(takesOver: false, windowBits: windowBits), options: everything),
            ] {
                var frame: [UInt8] = []
                deflater.append(message: .text, payload: message.rawSpan, to: &frame)
                frames.append(frame)
            }
            #expect(frames[0] == frames[1] && frames[0] == frames[2])
            guard frames[0][0] & 0x40 != 0 else { continue }
            let header = frames[0][1] < 126 ? 2 : frames[0][1] == 126 ? 4 : 10
            let inflater = try Inflater(.raw(windowBits: windowBits))
            let payload = Array(frames[0][header...]) + [0, 0, 0xFF, 0xFF]
            var output: [UInt8] = []
            var offset = 0
            #expect(
                try inflater.inflate(payload.rawSpan, from: &offset, atMost: 1 << 20, into: &output)
                    == .needsInput)
            #expect(output == message)
        }
    }

    /// Any changed byte of a compressed stream gives a violation or another message, never a trap.
    @Test(arguments: 0..<100 as Range<UInt64>)
    func brokenStreamsNeverTrap(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let direction = DeflateAgreement.Direction(takesOver: seed & 1 == 0, windowBits: 15)
        let deflater = try MessageDeflater(direction, options: everything)
        var stream: [UInt8] = []
        for _ in 0..<4 {
            deflater.append(
                message: .binary, payload: sample(2000, random: &random).rawSpan, to: &stream, maskingKey: 0)
        }
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            stream[Int.random(in: 8..<stream.count, using: &random)] ^=
                1
                << UInt8.random(
                    in: 0..<8, using: &random)
        }
        var reader = MessageReader(
            role: .server, messageByteLimit: 10_000, checksText: true,
            inflater: try MessageInflater(direction))
        var seen: [Seen] = []
        read(&stream, with: &reader, into: &seen)
        for event in seen {
            if case .binary(let bytes) = event { #expect(bytes.count <= 10_000) }
        }
    }

    @Test func budgetDecidesWhoTakesOver() throws {
        var options = DeflateOptions()
        options.server.takesOver = true
        options.client.takesOver = true
        let one =
            CompressionMemory.deflaterByteCount(windowBits: 15, memoryLevel: 8)
            + CompressionMemory.inflaterByteCount(windowBits: 15)
        let budget = CompressionBudget(byteLimit: 2 * one)
        let shared = SharedCompression()
        let agreement = try #require(negotiated(options))
        var connections: [MessageCompression] = []
        for isGranted in [true, true, false] {
            let compression = MessageCompression(agreement, role: .server, shared: shared, budget: budget)
            #expect((compression != nil) == isGranted)
            if let compression { connections.append(compression) }
        }
        #expect(connections[0].inflater !== connections[1].inflater)
        #expect(connections[0].deflater !== connections[1].deflater)
        #expect(budget.usedByteCount == 2 * one)
        connections.removeLast()
        #expect(budget.usedByteCount == one)
        #expect(MessageCompression(agreement, role: .client, shared: shared, budget: budget) != nil)
        connections.removeAll()
        // What does not take over is shared, and asks nothing of the budget.
        let modest = try #require(negotiated(DeflateOptions()))
        let empty = CompressionBudget(byteLimit: 0)
        let first = try #require(MessageCompression(modest, role: .server, shared: shared, budget: empty))
        let second = try #require(MessageCompression(modest, role: .server, shared: shared, budget: empty))
        #expect(first.inflater === second.inflater && first.deflater === second.deflater)
        #expect(budget.usedByteCount == 0)
    }

    @Test func shortMessagesArePlain() throws {
        let shared = SharedCompression()
        let deflater = try shared.deflater(windowBits: 15)
        for (count, isCompressed) in [(0, false), (999, false), (1000, true)] {
            var frame: [UInt8] = []
            let message = [UInt8](repeating: 0x61, count: count)
            deflater.append(message: .text, payload: message.rawSpan, to: &frame)
            #expect((frame[0] & 0x40 != 0) == isCompressed)
            #expect(deflater.compresses(byteCount: count) == isCompressed)
        }
        // Noise does not become shorter.
        var random = SeededGenerator(seed: 1)
        let noise = (0..<5000).map { _ in UInt8.random(in: 0...255, using: &random) }
        var frame: [UInt8] = []
        deflater.append(message: .binary, payload: noise.rawSpan, to: &frame)
        #expect(frame[0] == 0x82 && frame.suffix(5000).elementsEqual(noise))
    }

    // MARK: Support

    private func negotiated(_ options: DeflateOptions) -> DeflateAgreement? {
        var offer = DeflateParameters()
        offer.clientMaxWindowBits = .anySize
        let client = ClientHandshake(nonce: (1, 1), deflate: offer)
        return try? bothSides(client, options)
    }

    private func sample(_ count: Int, random: inout SeededGenerator) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            switch Int.random(in: 0..<3, using: &random) {
            case 0: bytes += [UInt8](repeating: 0x20, count: Int.random(in: 1...300, using: &random))
            case 1: bytes += Array("{\"name\":\"Ada\",\"score\":17}".utf8)
            default: bytes += (0..<40).map { _ in UInt8.random(in: 0...255, using: &random) }
            }
        }
        return Array(bytes.prefix(count))
    }

    /// The one frame of a message, as several.
    private func fragments(_ frame: [UInt8], masked: Bool, random: inout SeededGenerator) -> [UInt8] {
        var window = frame
        let length = Int(frame[1] & 0x7F)
        let headerCount = 2 + (length < 126 ? 0 : length == 126 ? 2 : 8) + (masked ? 4 : 0)
        var payload = Array(window[headerCount...])
        if masked {
            let key = Array(window[(headerCount - 4)..<headerCount])
            for index in payload.indices { payload[index] ^= key[index % 4] }
        }
        window = []
        var rest = payload[...]
        let count = Int.random(in: 1...4, using: &random)
        for index in 0..<count {
            let isFinal = index == count - 1
            let part = isFinal ? rest : rest.prefix(Int.random(in: 0...rest.count, using: &random))
            rest = rest.dropFirst(part.count)
            window +=
                TestFrame(
                    opcode: index == 0 ? 2 : 0, payload: Array(part), isFinal: isFinal,
                    reserved: index == 0 ? frame[0] >> 4 & 7 : 0,
                    key: masked ? [1, 2, 3, UInt8(index)] : nil
                ).bytes
        }
        return window
    }
}
