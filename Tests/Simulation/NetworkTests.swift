import PandoRandom
import Testing

@testable import PandoSimulation

@Suite struct NetworkTests {
    /// Whatever the network does, what is read is what was written, in order, and never more than the window
    /// waits.
    @Test(arguments: 0..<20 as Range<UInt64>) func bytesArriveInOrder(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var pipe = BytePipe()
        pipe.windowByteCount = random.pick([1, 7, 100])
        let written = (0..<500).map { _ in UInt8.random(in: 0...255, using: &random) }
        var (sent, read) = (0, [UInt8]())
        for _ in 0..<20_000 where !pipe.hasEndArrived || pipe.readableCount > 0 {
            switch Int.random(in: 0..<4, using: &random) {
            case 0 where sent < written.count:
                let count = Int.random(in: 0...min(40, written.count - sent), using: &random)
                pipe.write(written[sent..<sent + count])
                sent += count
                if sent == written.count { pipe.end() }
            case 1: pipe.accept(pipe.acceptableCount)
            case 2:
                pipe.carry(random.part(of: pipe.inFlightCount))
                pipe.carryEnd()
            default: read += pipe.read(atMost: Int.random(in: 1...50, using: &random))
            }
            #expect(pipe.acceptedCount - pipe.readCount <= pipe.windowByteCount, "seed \(seed)")
        }
        #expect(read == written, "seed \(seed)")
        #expect(pipe.isQuiet)
    }

    @Test func endArrivesBehindAllBytes() {
        var pipe = BytePipe()
        pipe.write([1, 2])
        pipe.end()
        pipe.write([3])
        pipe.accept(2)
        pipe.carry(1)
        pipe.carryEnd()
        #expect(!pipe.hasEndArrived)
        pipe.carry(1)
        pipe.carryEnd()
        #expect(pipe.hasEndArrived)
        #expect(pipe.read(atMost: 9) == [1, 2])
    }

    @Test func bytesThatTheKernelHasNotAcceptedAreLostWithTheSender() {
        var pipe = BytePipe()
        pipe.windowByteCount = 2
        pipe.write([1, 2, 3])
        pipe.accept(pipe.acceptableCount)
        pipe.dropUnsent()
        pipe.carry(pipe.inFlightCount)
        #expect(pipe.read(atMost: 9) == [1, 2])
        #expect(pipe.writtenCount == 2)
    }

    // MARK: The server's end

    @Test func channelReportsItsEventsInOrder() {
        let link = SimulatedLink(number: 0, rate: .whole)
        let channel = SimulatedChannel(link, lowWaterByteCount: 2)
        #expect(!channel.isReady)
        link.toServer.write([1, 2])
        link.toServer.end()
        link.toServer.moveAll()
        #expect(channel.isReady)
        channel.setReading(paused: true)
        #expect(!channel.isReady)
        channel.setReading(paused: false)
        #expect(Self.text(channel.nextEvent(byteLimit: 1)) == "received 1")
        #expect(Self.text(channel.nextEvent(byteLimit: 9)) == "received 1")
        #expect(Self.text(channel.nextEvent(byteLimit: 9)) == "ended")
        channel.closeAfterFlush()
        #expect(Self.text(channel.nextEvent(byteLimit: 9)) == "closed")
        #expect(channel.nextEvent(byteLimit: 9) == nil)
    }

    @Test func channelDrainsWhenTheClientReads() {
        let link = SimulatedLink(number: 0, rate: .slow(windowByteCount: 4))
        let channel = SimulatedChannel(link, lowWaterByteCount: 2)
        channel.write([1, 2, 3, 4, 5, 6, 7, 8])
        channel.flush()
        #expect(channel.unsentByteCount == 4)
        #expect(!channel.isReady)
        link.toClient.moveAll()
        _ = link.toClient.read(atMost: 3)
        #expect(channel.isReady)
        #expect(Self.text(channel.nextEvent(byteLimit: 9)) == "drained")
        #expect(channel.unsentByteCount == 1)
        channel.closeAfterFlush()
        #expect(!channel.isClosed)
        link.reset()
        #expect(Self.text(channel.nextEvent(byteLimit: 9)) == "closed")
    }

    private static func text(_ event: SimulatedChannel.Event?) -> String {
        switch event {
        case .received(let bytes): "received \(bytes.count)"
        case .drained: "drained"
        case .ended: "ended"
        case .closed: "closed"
        case nil: "none"
        }
    }
}

/// TLS between the ends of a simulated connection.
@Suite struct SecureEndTests {
    /// Bytes of all that both ends send in a handshake, and for one byte of data in each direction.
    private static func lengths(_ random: inout SeededGenerator) -> [Int] {
        let (client, server) = (SecureEnd(SecureChoice(&random)), SecureEnd())
        var lengths: [Int] = []
        func carry() {
            while true {
                let (toServer, toClient) = (client.takeOutput(), server.takeOutput())
                if toServer.isEmpty, toClient.isEmpty { return }
                lengths += [toServer.count, toClient.count]
                if !toServer.isEmpty { #expect(server.receive(toServer).failure == nil) }
                if !toClient.isEmpty { #expect(client.receive(toClient).failure == nil) }
            }
        }
        carry()
        client.seal([1])
        server.seal([2])
        server.close()
        carry()
        #expect(client.hasEnded)
        return lengths
    }

    /// Randomness of libcrypto must not make another run of a seed.
    @Test(arguments: 0..<8 as Range<UInt64>) func recordsOfASeedHaveTheSameLengths(seed: UInt64) {
        let all = (0..<50).map { _ in
            var random = SeededGenerator(seed: seed)
            return Self.lengths(&random)
        }
        #expect(Set(all).count == 1, "\(Set(all))")
    }
}
