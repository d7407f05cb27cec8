import Testing

@testable import PandoDatabase
@testable import PandoEngine

/// The recipients of a push by their tags.
@Suite struct TagGroupsTests {
    private static func recipients(_ recipients: [(session: UInt64, tag: Int64)]) -> [Push.TaggedRecipient] {
        recipients.map { Push.TaggedRecipient(session: SessionID($0.session), tag: $0.tag) }
    }

    private static func groups(_ recipients: [(session: UInt64, tag: Int64)]) -> [String] {
        guard let groups = TagGroups(Self.recipients(recipients)) else { return ["none"] }
        return groups.all.map { group in
            let sessions = groups.sessions(of: group).map { "\($0.rawValue)" }.joined(separator: " ")
            #expect((groups.onlySession(of: group) != nil) == !sessions.contains(" "))
            return "\(group.tag): \(sessions)"
        }
    }

    @Test func groupsComeInTheOrderOfTheirFirstRecipients() {
        #expect(Self.groups([]) == [])
        #expect(Self.groups([(7, 3)]) == ["3: 7"])
        #expect(Self.groups([(7, 3), (8, 3)]) == ["3: 7 8"])
        #expect(
            Self.groups([(1, 9), (2, 5), (1, 4), (3, 9), (4, 5), (5, 9)])
                == ["9: 1 3 5", "5: 2 4", "4: 1"])
        let many = Self.groups((0..<1000).map { (UInt64($0 + 1), Int64($0)) })
        #expect(many == (0..<1000).map { "\($0): \($0 + 1)" })
    }

    @Test(arguments: [(1, true), (2, true), (64, true), (65, false), (1000, false)])
    func moreTagsThanTheLimitAreNotGrouped(tagCount: Int, areGrouped: Bool) {
        let recipients = Self.recipients((0..<2000).map { (UInt64($0 + 1), Int64($0 % tagCount)) })
        let groups = TagGroups(recipients, atMost: 64)
        #expect((groups != nil) == areGrouped)
        if let groups { #expect(groups.all.count == tagCount) }
    }
}
