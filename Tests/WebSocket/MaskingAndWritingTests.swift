import PandoBytes
import PandoWebSocket
import Testing

@Suite struct MaskingTests {
    /// Every alignment, every length around the widths of the steps, against a byte loop.
    @Test func everyAlignmentAndLength() {
        let key: [UInt8] = [0x37, 0xFA, 0x21, 0x3D]
        let word = key.reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        for start in 0..<33 {
            for count in 0..<140 {
                let original = (0..<200).map { UInt8(truncatingIfNeeded: $0 &* 31) }
                var expected = original
                for index in 0..<count { expected[start + index] ^= key[index % 4] }
                var actual = original
                let isASCII = mask(&actual, start..<(start + count), key: word)
                #expect(actual == expected, "start \(start), count \(count)")
                #expect(isASCII == expected[start..<(start + count)].allSatisfy { $0 < 0x80 })
            }
        }
    }

    /// A single byte beyond ASCII is found wherever it is.
    @Test func oneNonASCIIByteIsFound() {
        for count in 1..<100 {
            for place in 0..<count {
                var bytes = [UInt8](repeating: 0x61, count: count)
                #expect(mask(&bytes, 0..<count, key: 0))
                bytes[place] = 0x80
                #expect(!mask(&bytes, 0..<count, key: 0), "\(place) of \(count)")
            }
        }
    }

    private func mask(_ bytes: inout [UInt8], _ range: Range<Int>, key: UInt32) -> Bool {
        var elements = bytes.mutableSpan
        var all = unsafe elements.mutableBytes
        var part = all._mutatingExtracting(range)
        return applyMask(&part, key: key)
    }
}

@Suite struct FrameWritingTests {
    /// Written frames have the format of RFC 6455 §5.2, for both roles, with every form of the length.
    @Test(arguments: [0, 1, 125, 126, 127, 65_535, 65_536])
    func frames(count: Int) {
        let payload = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
        let key: [UInt8] = [1, 2, 3, 4]
        let nothing: [UInt8] = []
        for opcode in [Opcode.text, .binary, .continuation] {
            for isFinal in [true, false] {
                for (maskingKey, bytes) in [(UInt32(0x0403_0201), key), (nil, nil)] as [(UInt32?, [UInt8]?)] {
                    let expected = TestFrame(
                        opcode: opcode.rawValue, payload: payload, isFinal: isFinal, key: bytes
                    ).bytes
                    var output: [UInt8] = [9]
                    output.append(
                        frame: opcode, payload: payload.rawSpan, isFinal: isFinal, maskingKey: maskingKey)
                    #expect(output == [9] + expected)

                    output.append(frame: .ping, payload: nothing.rawSpan)
                    #expect(output == [9] + expected + [0x89, 0], "and another may follow")
                }
            }
        }
    }

    @Test func closeFrames() {
        var output: [UInt8] = []
        output.append(closeFrame: nil)
        #expect(output == [0x88, 0])
        output = []
        output.append(closeFrame: .goingAway, reason: "bye")
        #expect(output == [0x88, 5, 0x03, 0xE9] + Array("bye".utf8))
        output = []
        output.append(closeFrame: .normal, reason: String(repeating: "é", count: 100), maskingKey: 0)
        #expect(
            read(output, cuts: []) == [.close(1000, Array(String(repeating: "é", count: 61).utf8))],
            "cut between characters to fit 125 bytes")
    }
}

@Suite struct CloseHandshakeTests {
    @Test func thisSideCloses() {
        var server = CloseHandshake(role: .server)
        #expect(server.isOpen)
        #expect(server.close(.goingAway) == .send(.goingAway))
        #expect(!server.isOpen)
        #expect(server.close(.normal) == .nothing, "one close frame is enough")
        #expect(server.receivedClose(.goingAway) == .disconnect)
        #expect(server.receivedClose(.goingAway) == .nothing)
        #expect(server.state == .closed)

        var client = CloseHandshake(role: .client)
        #expect(client.close(.normal) == .send(.normal))
        #expect(client.receivedClose(.normal) == .awaitEnd, "the server ends the connection")
        #expect(client.expired() == .disconnect)
    }

    @Test func peerCloses() {
        var server = CloseHandshake(role: .server)
        #expect(server.receivedClose(.goingAway) == .sendThenDisconnect(.goingAway), "with the same code")
        #expect(server.close(.normal) == .nothing)
        var bare = CloseHandshake(role: .server)
        #expect(bare.receivedClose(nil) == .sendThenDisconnect(nil), "empty answers empty")
        var client = CloseHandshake(role: .client)
        #expect(client.receivedClose(.normal) == .sendThenAwaitEnd(.normal))
        #expect(client.peerVanished() == .disconnect)
    }

    @Test func peerViolatesTheProtocol() {
        var open = CloseHandshake(role: .server)
        #expect(open.failed(.invalidUTF8) == .sendThenDisconnect(.invalidPayload))
        #expect(open.failed(.invalidUTF8) == .nothing)
        var closing = CloseHandshake(role: .client)
        _ = closing.close(.normal)
        #expect(closing.failed(.maskedServerFrame) == .disconnect, "our close frame is out already")
        var silent = CloseHandshake(role: .server)
        _ = silent.close(.normal)
        #expect(silent.expired() == .disconnect)
        #expect(silent.receivedClose(nil) == .nothing)
    }
}
