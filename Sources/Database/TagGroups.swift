import PandoEngine

/// The recipients of one push by their tags. Clients number their tags from one, so listeners of one query
/// often share theirs; where each has its own, a tag costs no allocation. For very many there is
/// ``TaggedPush``.
struct TagGroups {
    /// Recipients with one tag: a list through ``following``.
    struct Group {
        let tag: Int64
        fileprivate let first: Int
        fileprivate var last: Int
    }

    /// In the order in which the tags come: that of a dictionary differs from run to run.
    private(set) var all: [Group] = []
    private let recipients: [Push.TaggedRecipient]
    /// For each recipient the next one with its tag; 0 for none, since the first recipient follows no other.
    private var following: [Int] = []

    /// - Parameter limit: The most different tags; nil where there are more.
    /// - Complexity: O(recipients).
    init?(_ recipients: [Push.TaggedRecipient], atMost limit: Int = .max) {
        self.recipients = recipients
        if recipients.count <= 1 {
            all = recipients.map { Group(tag: $0.tag, first: 0, last: 0) }
            return
        }
        following = Array(repeating: 0, count: recipients.count)
        var indexes: [Int64: Int] = [:]
        for (number, recipient) in recipients.enumerated() {
            if let index = indexes[recipient.tag] {
                following[all[index].last] = number
                all[index].last = number
            } else {
                guard all.count < limit else { return nil }
                indexes[recipient.tag] = all.count
                all.append(Group(tag: recipient.tag, first: number, last: number))
            }
        }
    }

    /// The session of a group that has one; nil where there are several.
    func onlySession(of group: Group) -> SessionID? {
        group.first == group.last ? recipients[group.first].session : nil
    }

    /// The sessions of a group, in the order in which they come.
    func sessions(of group: Group) -> ContiguousArray<SessionID> {
        var sessions: ContiguousArray<SessionID> = [recipients[group.first].session]
        var number = group.first
        while number != group.last {
            number = following[number]
            sessions.append(recipients[number].session)
        }
        return sessions
    }
}
