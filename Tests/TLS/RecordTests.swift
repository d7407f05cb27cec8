import PandoRandom
import Testing

@testable import PandoTLS

@Suite struct RecordTests {
    static let versions: [Int32] = [0x0303, 0x0304]

    @Test(arguments: suites)
    func everyChangedBitIsFound(suite: (version: Int32, cipher: String)) throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededGenerator(seed: seed)
        for _ in 0..<60 {
            let pair = try establishedPair { limit(&$0, to: suite) }
            var record = try seal([pattern(50)], pair.client.tls)
            let index = Int.random(in: 0..<record.count, using: &random)
            record[index] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            // Where the length says more, the rest comes.
            pair.server.receive(record + [UInt8](repeating: 0, count: 1))
            let isLonger = index == 3 || index == 4
            #expect(pair.server.failure != nil || isLonger, "seed \(seed), byte \(index)")
            #expect(pair.server.data.isEmpty, "seed \(seed), byte \(index)")
            #expect(!pair.server.tls.isEstablished || isLonger)
            pair.client.receive(pair.server.takeOutput())
            if !isLonger { #expect(pair.client.failure != nil, "the client gets an alert") }
        }
    }

    @Test(arguments: versions)
    func replayedAndSwappedRecords(version: Int32) throws {
        for replays in [true, false] {
            let pair = try establishedPair { $0.versions = version...version }
            let first = try seal([[1]], pair.client.tls), second = try seal([[2]], pair.client.tls)
            if replays {
                pair.server.receive(first)
                pair.server.receive(first)
                #expect(pair.server.data == [1])
            } else {
                pair.server.receive(second)
                #expect(pair.server.data == [])
            }
            #expect(pair.server.failure == .violation(.badRecordMAC))
        }
    }

    @Test(arguments: versions)
    func dataBeforeABadRecordIsGood(version: Int32) throws {
        let pair = try establishedPair { $0.versions = version...version }
        let bytes = try seal([[1, 2]], pair.client.tls) + seal([[3]], pair.client.tls)
        pair.server.receive(bytes + [23, 3, 3, 0, 30] + [UInt8](repeating: 9, count: 30))
        #expect(pair.server.data == [1, 2, 3] && pair.server.failure == .violation(.badRecordMAC))
        // Nothing is taken or sent any more.
        pair.server.receive(try seal([[4]], pair.client.tls))
        #expect(pair.server.data == [1, 2, 3])
        pair.client.receive(pair.server.takeOutput())
        #expect(pair.client.failure == .alerted(Alert.badRecordMAC.rawValue))
    }

    @Test(
        arguments: [
            ([23, 3, 3, 0x41, 1], Alert.recordOverflow, "longer than any record"),
            ([24, 3, 3, 0, 1], .unexpectedMessage, "no type of a record"),
            ([23, 2, 3, 0, 1], .unexpectedMessage, "no version of TLS"),
            ([20, 3, 3, 0, 1, 1], .unexpectedMessage, "a second change of ciphers"),
        ] as [([UInt8], Alert, String)])
    func badHeaders(bytes: [UInt8], alert: Alert, reason: String) throws {
        for version in Self.versions {
            let pair = try establishedPair { $0.versions = version...version }
            pair.server.receive(bytes)
            #expect(pair.server.failure == .violation(alert), "\(reason)")
        }
    }

    @Test func plainAlertsAndHandshakesAfterTheHandshake() throws {
        for type in [21, 22] as [UInt8] {
            let pair = try establishedPair { $0.versions = 0x0304...0x0304 }
            pair.server.receive([type, 3, 3, 0, 2, 1, 0])
            #expect(pair.server.failure == .violation(.unexpectedMessage))
        }
    }

    @Test func connectionThatIsCutOffHasNotEnded() throws {
        let pair = try establishedPair()
        let record = try seal([pattern(100)], pair.client.tls)
        for count in 0..<record.count {
            let fresh = try establishedPair()
            let bytes = try seal([pattern(100)], fresh.client.tls)
            fresh.server.receive(Array(bytes[..<count]))
            #expect(fresh.server.data.isEmpty && !fresh.server.hasEnded && fresh.server.failure == nil)
            #expect(
                fresh.server.tls.heldByteCount >= count && fresh.server.tls.heldByteCount <= 2 * count + 64)
            if count % 10 == 0 {
                fresh.server.receive(Array(bytes[count...]))
                #expect(fresh.server.data == pattern(100))
            }
        }
    }

    @Test func newKeysAfterManyRecords() throws {
        let pair = try establishedPair { $0.versions = 0x0304...0x0304 }
        pair.server.tls.recordLimitOfKeys = 5
        pair.client.tls.recordLimitOfKeys = 3
        var expected: [UInt8] = []
        for index in 0..<40 as Range<UInt8> {
            try pair.client.send([index])
            try pair.server.send([index])
            expected.append(index)
            pair.exchange()
        }
        #expect(pair.server.data == expected && pair.client.data == expected)
        #expect(pair.server.failure == nil && pair.client.failure == nil)
    }

    /// TLS 1.2 can't go on to new keys: the connection should end. ChaCha20 has no limit (RFC 8446 §5.5).
    @Test(arguments: suites)
    func keysThatAreUsedUp(suite: (version: Int32, cipher: String)) throws {
        let pair = try establishedPair { limit(&$0, to: suite) }
        pair.server.tls.recordLimitOfKeys = 3
        let hasLimit = suite.version == 0x0303 && !suite.cipher.contains("CHACHA")
        for count in 1...4 {
            #expect(!pair.server.tls.isUsedUp || count == 4, "after \(count - 1) full records")
            try pair.server.send(pattern(16_384))
            pair.exchange()
        }
        #expect(pair.server.tls.isUsedUp == hasLimit)
        #expect(pair.client.data.count == 4 * 16_384 && pair.client.failure == nil)
        // Small records count as what they are: a block of data, and one of the tag.
        let other = try establishedPair { limit(&$0, to: suite) }
        other.server.tls.recordLimitOfKeys = 1
        for _ in 0..<500 { try other.client.send([1]) }
        other.exchange()
        #expect(!other.server.tls.isUsedUp)
        for _ in 0..<12 { try other.client.send([1]) }
        other.exchange()
        #expect(other.server.tls.isUsedUp == hasLimit, "what the client sends counts, too")
    }

    @Test func tooManyRecordsWithoutData() throws {
        let pair = try establishedPair { $0.versions = 0x0304...0x0304 }
        pair.client.tls.recordLimitOfKeys = 0
        var bytes: [UInt8] = []
        // Each record of data follows a message of new keys.
        for _ in 0..<TLSConnection.controlRecordLimit { bytes += try seal([[7]], pair.client.tls) }
        pair.server.receive(bytes)
        #expect(pair.server.failure == nil && pair.server.data.count == TLSConnection.controlRecordLimit)
        bytes = []
        for _ in 0...TLSConnection.controlRecordLimit { bytes += try seal([[7]], pair.client.tls) }
        pair.server.receive(bytes)
        #expect(pair.server.failure == .tooManyControlRecords)
    }

    @Test(
        arguments: [
            ([24, 0, 0, 1, 0], nil, false, "a KeyUpdate"),
            ([24, 0, 0, 1, 1], nil, true, "one that asks for another"),
            ([24, 0, 0, 1, 2], .illegalParameter, nil, "an unknown request"),
            ([24, 0, 0, 2, 0, 0], .decodeError, nil, "a wrong length"),
            ([24, 0, 0, 1, 0, 24], .unexpectedMessage, nil, "something behind it"),
            ([4, 0, 0, 1, 0], .unexpectedMessage, nil, "a ticket to a server"),
            ([1, 0, 0, 0], .unexpectedMessage, nil, "a ClientHello"),
            ([24, 0, 0], nil, nil, "not complete"),
        ] as [([UInt8], Alert?, Bool?, String)])
    func messagesAfterTheHandshake(bytes: [UInt8], alert: Alert?, request: Bool?, reason: String) {
        for size in 1...bytes.count {
            var reader = PostHandshakeReader()
            var (found, failure): (Bool?, TLSError?)
            do throws(TLSError) {
                for piece in pieces(bytes, size) where found == nil {
                    found = try reader.read(piece, isServer: true)
                }
            } catch {
                failure = error
            }
            // In several records, what is behind a KeyUpdate has new keys.
            if alert == .unexpectedMessage, bytes.first == 24, bytes.count % size != 0 || size < 6 {
                continue
            }
            #expect(failure == alert.map { .violation($0) }, "\(reason), pieces of \(size)")
            #expect(found == request, "\(reason), pieces of \(size)")
        }
    }

    @Test func clientsIgnoreTickets() throws {
        var reader = PostHandshakeReader()
        let ticket: [UInt8] = [4, 0, 1, 4] + [UInt8](repeating: 24, count: 260)
        for size in [1, 3, 100, 264] {
            for piece in pieces(ticket + ticket, size) {
                #expect(try reader.read(piece, isServer: false) == nil)
            }
            #expect(!reader.isIncomplete)
        }
        #expect(try reader.read(ticket + [24, 0, 0, 1, 1], isServer: false) == true)
    }
}
