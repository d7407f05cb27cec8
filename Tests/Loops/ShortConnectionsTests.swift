import PandoReactor
import Testing

@testable import PandoLoops

@Suite struct ShortConnectionsTests {
    private final class Connection {}

    private func address(_ text: String) throws -> SocketAddress {
        try #require(SocketAddress(text, port: 1))
    }

    @Test func addressWithMostConnectionsMakesPlace() throws {
        let (one, many) = (try address("192.0.2.1"), try address("192.0.2.2"))
        let all = (0..<6).map { _ in Connection() }
        var connections = ShortConnections<Connection>(limit: 6)
        for (connection, peer) in zip(all, [one, many, one, many, many, one]) {
            connections.add(connection, from: peer)
        }
        #expect(connections.nextToClose === all[0], "both have three: the oldest")
        connections.remove(all[5])
        #expect(connections.nextToClose === all[1])
        connections.move(all[1], to: .answered)
        #expect(connections.nextToClose === all[3], "it has sent no request")
        connections.remove(all[3])
        connections.remove(all[4])
        #expect(connections.nextToClose === all[0], "one has two")
        connections.remove(all[0])
        connections.remove(all[2])
        #expect(connections.nextToClose === all[1], "there is no other")
    }

    @Test func oldestSilentConnectionMakesPlaceThenTheOldestAnswered() throws {
        let peer = try address("192.0.2.1")
        let all = (0..<4).map { _ in Connection() }
        var connections = ShortConnections<Connection>(limit: 4)
        for connection in all {
            #expect(!connections.isFull)
            connections.add(connection, from: peer)
        }
        #expect(connections.isFull && connections.nextToClose === all[0])
        connections.move(all[0], to: .busy)
        connections.move(all[1], to: .answered)
        #expect(connections.nextToClose === all[2], "the oldest that has sent no request")
        connections.remove(all[2])
        connections.remove(all[2])
        #expect(!connections.isFull && connections.nextToClose === all[3])
        connections.move(all[3], to: .busy)
        #expect(connections.nextToClose === all[1], "the oldest that has its response")
        connections.move(all[1], to: .busy)
        #expect(connections.nextToClose == nil, "all are being answered")
        connections.move(all[2], to: .silent)
        #expect(connections.nextToClose == nil, "it was removed")
    }

    @Test func refusalsThatLingerAreBounded() {
        let refusals = LingeringRefusals()
        var grants = (0..<LingeringRefusals.limit).map { _ in
            #expect(!refusals.isFull)
            return refusals.begin()
        }
        #expect(refusals.isFull && grants.count == LingeringRefusals.limit)
        grants.removeLast()
        #expect(!refusals.isFull)
    }
}
