import PandoBytes
import PandoIdentity
import Testing

@testable import PandoConnections

/// The connections and writes of one user over all connections.
@Suite struct UserLimiterTests {
    private func limited(_ uid: String, issuer: Text? = nil) throws -> LimitedUser {
        var identity = user(uid)
        identity.issuer = issuer
        return try #require(LimitedUser(identity))
    }

    @Test func usersWithAUIDAreLimited() throws {
        #expect(LimitedUser(administrator) == nil)
        #expect(LimitedUser(user("")) == nil, "without a uid")
        #expect(try limited("ada") == limited("ada"))
        #expect(try limited("ada") != limited("bob"))
        #expect(
            try limited("ada", issuer: "a") != limited("ada", issuer: "b"), "each issuer has its own users")
    }

    @Test func connectionsOfOneUser() throws {
        let users = UserLimiter(connectionLimit: 2, rates: WriteRates())
        let ada = try limited("ada")
        var grants = [users.admit(ada, at: testStart), users.admit(ada, at: testStart)]
        #expect(grants.allSatisfy { $0 != nil })
        #expect(users.admit(ada, at: testStart) == nil)
        #expect(users.admit(try limited("bob"), at: testStart) != nil, "others have their own")
        grants.removeLast()
        #expect(users.admit(ada, at: testStart) != nil)
        grants = []
        #expect(users.clientCount == 0, "nothing is kept of users without connections")
    }

    /// A connection that ends does not give back what was written over it.
    @Test func writesAreRememberedBetweenConnections() throws {
        let users = UserLimiter(connectionLimit: 1, rates: WriteRates(writesPerSecond: 1))
        let ada = try limited("ada")
        for _ in 0..<3 {
            let grant = users.admit(ada, at: testStart)
            #expect(grant != nil)
            for _ in 0..<3 { #expect(users.takeWrite(1, of: .user(ada), at: testStart) == .now) }
        }
        #expect(users.takeWrite(1, of: .user(ada), at: testStart) == .now)
        let excess = RateExcess(limit: .writesPerSecond, wait: .zero)
        #expect(users.takeWrite(1, of: .user(ada), at: testStart) == .refused(excess))
        #expect(users.takeWrite(1, of: .user(ada), at: second(1.1)) == .now)
    }

    /// Each write that waits is given its own time; one for which that is too far away is refused, and costs
    /// nothing.
    @Test func writesThatWaitHaveTheirTurns() throws {
        let users = UserLimiter(connectionLimit: 0, rates: WriteRates(writesPerSecond: 10))
        let ada = LimitedClient.user(try limited("ada"))
        for _ in 0..<100 { #expect(users.takeWrite(1, of: ada, at: testStart) == .now) }
        for turn in 0...5 {
            let excess = RateExcess(limit: .writesPerSecond, wait: .milliseconds(100 * turn))
            let decision = users.takeWrite(1, of: ada, waitingAtMost: .milliseconds(500), at: testStart)
            #expect(decision == .later(excess))
        }
        for _ in 0..<3 {
            let excess = RateExcess(limit: .writesPerSecond, wait: .milliseconds(600))
            let decision = users.takeWrite(1, of: ada, waitingAtMost: .milliseconds(500), at: testStart)
            #expect(decision == .refused(excess))
        }
    }

    @Test func usersAndNetworksAreApart() throws {
        let users = UserLimiter(connectionLimit: 0, rates: WriteRates(bytesPerSecond: 1))
        let clients: [LimitedClient] = [
            .user(try limited("ada")), .network(ClientNetwork(family: 4, prefix: 1)),
            .network(ClientNetwork(family: 4, prefix: 2)), .network(ClientNetwork(family: 6, prefix: 1)),
        ]
        for client in clients { #expect(users.takeWrite(100, of: client, at: testStart) == .now) }
        for client in clients { #expect(users.takeWrite(1, of: client, at: testStart) != .now) }
        #expect(users.clientCount == clients.count)
    }

    /// However many users come and go, those are forgotten of whom nothing must be remembered.
    @Test func memoryIsBoundedByThoseWhoWroteLately() throws {
        let users = UserLimiter(connectionLimit: 1, rates: WriteRates(bytesPerSecond: 1000))
        let kept = users.admit(try limited("kept"), at: testStart)
        for step in 0..<50 {
            for index in 0..<500 {
                _ = users.takeWrite(
                    100, of: .user(try limited("user \(step) \(index)")), at: second(Double(step)))
            }
            #expect(users.clientCount <= 4096)
        }
        #expect(users.admit(try limited("kept"), at: second(50)) == nil, "it is still connected")
        withExtendedLifetime(kept) {}
    }
}
