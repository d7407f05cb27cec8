import PandoBytes
import PandoRandom
import Testing

@testable import PandoConnections
@testable import PandoDatabase

/// The outputs of one session keep their order, whatever takes how long to encode.
@Suite struct OutputSequenceTests {
    private func bytes(_ text: String) -> OutputSequence.Output { .bytes(Array(text.utf8)) }

    private func shown(_ output: OutputSequence.Output?) -> String {
        switch output {
        case nil: "none"
        case .bytes(let bytes)?: text(bytes)
        case .shared(let bytes)?: text(bytes.array)
        case .large(let message)?: "large \(message.requestNumber ?? 0)"
        case .windowMark?: "mark"
        case .close(let reason)?: "close \(reason)"
        }
    }

    @Test func largeMessageHoldsWhatFollows() {
        var outputs = OutputSequence()
        var encoder = Encoder()
        let message = largeReply(1, 300_000)
        #expect(outputs.isReady && outputs.isEmpty && outputs.heldByteCount == 0)
        outputs.begin(message)
        #expect(!outputs.isReady && !outputs.isEmpty)
        outputs.append(bytes("a"), byteCount: 10)
        outputs.append(.windowMark, byteCount: 0)
        outputs.append(.shared(SharedBytes(Array("b".utf8))), byteCount: 5)
        #expect(outputs.waitingCount == 3 && outputs.waitingByteCount == 15 && outputs.heldByteCount == 15)
        #expect(shown(outputs.removeFirst()) == "none", "the message is in the way")
        let isOther = outputs.endEncoding(of: largeReply(1))
        #expect(!isOther, "another message than the one that is awaited")
        encoder.encode(message)
        let isAwaited = outputs.endEncoding(of: message)
        #expect(isAwaited && outputs.isReady)
        outputs.send(message)
        var (pieceCount, byteCount) = (0, 0)
        while let piece = outputs.nextPiece() {
            pieceCount += 1
            byteCount += piece.bytes.count
            #expect(piece.endsMessage == outputs.isReady && !piece.isShared)
            #expect(outputs.isReady == (byteCount == message.byteCount(from: 0)))
            // From the piece on that the connection was given.
            if !outputs.isReady {
                #expect(outputs.heldByteCount == 15 + message.byteCount(from: pieceCount - 1))
            }
        }
        #expect(pieceCount == message.pieces?.count && pieceCount == 3)
        #expect(["a", "mark", "b", "none"].allSatisfy { shown(outputs.removeFirst()) == $0 })
        #expect(outputs.isEmpty && outputs.waitingByteCount == 0 && outputs.heldByteCount == 0)
    }

    /// What others may hold, too, weighs little.
    @Test func sharedMessageWeighsLittle() {
        var encoder = Encoder()
        for (message, divisor) in [(largeReply(1, 300_000), 1), (largePush(300_000), 16)] {
            var outputs = OutputSequence()
            encoder.encode(message)
            outputs.send(message)
            #expect(outputs.heldByteCount == message.byteCount(from: 0) / divisor)
        }
    }

    @Test(arguments: [false, true])
    func removeAllSaysWhetherAWorkerEncodes(isEncoding: Bool) {
        var outputs = OutputSequence()
        if isEncoding { outputs.begin(largeReply(1)) }
        outputs.append(bytes("a"), byteCount: 1)
        let wasEncoding = outputs.removeAll()
        #expect(wasEncoding == isEncoding)
        #expect(outputs.isEmpty && outputs.waitingByteCount == 0)
    }

    /// As a queue of many outputs: what a plain array gives.
    @Test(arguments: 0..<20 as Range<UInt64>)
    func queueAgainstAnArray(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var outputs = OutputSequence()
        var model: [(String, Int)] = []
        for number in 0..<3000 {
            if Int.random(in: 0..<(number % 500 < 250 ? 3 : 6), using: &random) < 2 {
                let count = Int.random(in: 0...100, using: &random)
                model.append(("\(number)", count))
                outputs.append(bytes("\(number)"), byteCount: count)
            } else {
                let expected = model.isEmpty ? "none" : model.removeFirst().0
                #expect(shown(outputs.removeFirst()) == expected, "seed \(seed)")
            }
            #expect(outputs.waitingCount == model.count)
            #expect(outputs.waitingByteCount == model.reduce(0) { $0 + $1.1 })
        }
    }
}
