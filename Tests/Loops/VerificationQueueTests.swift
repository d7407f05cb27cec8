import PandoBytes
import PandoEngine
import Testing

@testable import PandoLoops

@Suite struct VerificationQueueTests {
    private static func entry(_ number: UInt64) -> VerificationQueue.Entry {
        let token = Text("token \(number)")
        return .init(session: SessionID(number), token: token, digest: SHA256Digest(of: token))
    }

    @Test func someAreVerifiedAtTheSameTimeInTheOrderOfArrival() {
        var queue = VerificationQueue()
        let limit = VerificationQueue.underWayLimit
        for number in 0..<UInt64(limit + 3) { queue.append(Self.entry(number)) { _ in true } }
        for number in 0..<UInt64(limit) { #expect(queue.next { _ in true }?.session == SessionID(number)) }
        #expect(queue.next { _ in true } == nil)
        queue.finish()
        #expect(queue.next { _ in true }?.session == SessionID(UInt64(limit)))
        #expect(queue.next { _ in true } == nil)
        #expect(queue.waitingCount == 2)
    }

    @Test func endedConnectionsAreSkipped() {
        var queue = VerificationQueue()
        for number in 0..<10 as Range<UInt64> { queue.append(Self.entry(number)) { _ in true } }
        let isOpen = { (id: SessionID) in id.rawValue % 4 == 3 }
        #expect(queue.next(isOpen: isOpen)?.session == SessionID(3))
        #expect(queue.next(isOpen: isOpen)?.session == SessionID(7))
        #expect(queue.next(isOpen: isOpen) == nil)
        #expect(queue.waitingCount == 0 && queue.underWayCount == 2)
    }

    /// Connections that come with a token and end, while an issuer does not respond.
    @Test func tokensOfEndedConnectionsAreNotKept() {
        var queue = VerificationQueue()
        let limit = UInt64(VerificationQueue.underWayLimit)
        for number in 0..<limit {
            queue.append(Self.entry(number)) { _ in true }
            _ = queue.next { _ in true }
        }
        for number in limit..<limit + 100_000 {
            queue.append(Self.entry(number)) { $0.rawValue + 10 > number }
            #expect(queue.next { _ in true } == nil)
            #expect(queue.waitingCount <= 1024)
        }
    }
}
