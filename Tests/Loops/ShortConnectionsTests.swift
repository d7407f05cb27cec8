import Testing

@testable import PandoLoops

@Suite struct ShortConnectionsTests {
    private final class Connection {}

    @Test func oldestSilentConnectionMakesPlaceThenTheOldestAnswered() throws {
        let all = (0..<4).map { _ in Connection() }
        var connections = ShortConnections<Connection>(limit: 4)
        for connection in all {
            #expect(!connections.isFull)
            connections.add(connection)
        }
        #expect(connections.isFull && connections.leastUseful === all[0])
        connections.move(all[0], to: .busy)
        connections.move(all[1], to: .answered)
        #expect(connections.leastUseful === all[2], "the oldest that has sent no request")
        connections.remove(all[2])
        connections.remove(all[2])
        #expect(!connections.isFull && connections.leastUseful === all[3])
        connections.move(all[3], to: .busy)
        #expect(connections.leastUseful === all[1], "the oldest that has its response")
        connections.move(all[1], to: .busy)
        #expect(connections.leastUseful == nil, "all are being answered")
        connections.move(all[2], to: .silent)
        #expect(connections.leastUseful == nil, "it was removed")
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
