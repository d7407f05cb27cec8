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

    @Test func whoIsLimited() throws {
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
        #expect(users.userCount == 0, "nothing is kept of users without connections")
    }

    /// A connection that ends does not give back what was written over it.
    @Test func writesAreRememberedBetweenConnections() throws {
        let users = UserLimiter(connectionLimit: 1, rates: WriteRates(writesPerSecond: 1))
        let ada = try limited("ada")
        for _ in 0..<3 {
            let grant = users.admit(ada, at: testStart)
            #expect(grant != nil)
            for _ in 0..<3 { #expect(users.takeWrite(1, of: ada, at: testStart) == nil) }
        }
        #expect(users.takeWrite(1, of: ada, at: testStart) == nil)
        #expect(users.takeWrite(1, of: ada, at: testStart)?.limit == .writesPerSecond)
        #expect(users.takeWrite(1, of: ada, at: second(1.1)) == nil)
    }

    /// However many users come and go, those are forgotten of whom nothing must be remembered.
    @Test func memoryIsBoundedByThoseWhoWroteLately() throws {
        let users = UserLimiter(connectionLimit: 1, rates: WriteRates(bytesPerSecond: 1000))
        let kept = users.admit(try limited("kept"), at: testStart)
        for step in 0..<50 {
            for index in 0..<500 {
                _ = users.takeWrite(100, of: try limited("user \(step) \(index)"), at: second(Double(step)))
            }
            #expect(users.userCount <= 4096)
        }
        #expect(users.admit(try limited("kept"), at: second(50)) == nil, "it is still connected")
        withExtendedLifetime(kept) {}
    }
}
