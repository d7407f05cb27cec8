import PandoTree

/// Distinct members in an order that depends only on the insertions and removals, never on a hash. Insertion
/// and removal are O(1): a removal moves the last member into the gap.
///
/// The members are one array. A push shares its storage.
struct MemberSet<Members>
where
    Members: RangeReplaceableCollection & MutableCollection & RandomAccessCollection,
    Members.Index == Int, Members.Element: Hashable
{
    private(set) var members = Members()
    /// The index of each member. Empty up to ``indexedCount`` members, since a short array is searched
    /// faster.
    private var positions: [Members.Element: Int] = [:]

    var isEmpty: Bool { members.isEmpty }
    var count: Int { members.count }

    func contains(_ member: Members.Element) -> Bool { position(of: member) != nil }

    /// - Returns: false when the member was there already.
    @discardableResult
    mutating func insert(_ member: Members.Element) -> Bool {
        guard position(of: member) == nil else { return false }
        members.append(member)
        if !positions.isEmpty {
            positions[member] = members.count - 1
        } else if members.count > indexedCount {
            for (index, member) in members.enumerated() { positions[member] = index }
        }
        return true
    }

    /// - Returns: false when there was no such member.
    @discardableResult
    mutating func remove(_ member: Members.Element) -> Bool {
        guard let index = position(of: member) else { return false }
        let last = members.removeLast()
        positions[member] = nil
        if index < members.count {
            members[index] = last
            if !positions.isEmpty { positions[last] = index }
        }
        // Well below the limit, so that a set whose count stays near it does not build its index repeatedly.
        if members.count < indexedCount / 2 { positions = [:] }
        return true
    }

    private func position(of member: Members.Element) -> Int? {
        positions.isEmpty ? members.firstIndex(of: member) : positions[member]
    }
}

/// Members of a ``MemberSet`` that are searched one by one rather than through an index.
private let indexedCount = 16

extension MemberSet: Sendable where Members: Sendable, Members.Element: Sendable {}

typealias SessionSet = MemberSet<ContiguousArray<SessionID>>
