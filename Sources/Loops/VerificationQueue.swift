import PandoBytes
import PandoEngine

/// Tokens of a loop's connections that wait to be verified. Some are verified at the same time; the others
/// wait here, so that one whose connection has ended costs nothing more.
struct VerificationQueue {
    /// A token, and the connection that wants it verified.
    struct Entry {
        let session: SessionID
        let token: Text
        let digest: SHA256Digest
    }

    /// Verifications at the same time, of one loop. Each may wait for an issuer (at most half as many, in all
    /// loops, for the same one), and holds a token of at most 8 KiB: 8 MiB in all.
    static let underWayLimit = 1024
    /// Entries from which on those of ended connections are removed.
    private static let leastCountToPrune = 1024

    private(set) var underWayCount = 0
    private var waiting: [Entry] = []
    /// Entries before this one were taken.
    private var first = 0
    private var countToPrune = leastCountToPrune

    var waitingCount: Int { waiting.count - first }

    /// Adds a token that ``next(isOpen:)`` returns in its turn.
    /// - Parameter isOpen: Whether a connection still exists.
    /// - Complexity: O(1), amortised.
    mutating func append(_ entry: Entry, isOpen: (SessionID) -> Bool) {
        if waiting.count >= countToPrune {
            waiting = waiting[first...].filter { isOpen($0.session) }
            first = 0
            countToPrune = max(Self.leastCountToPrune, 2 * waiting.count)
        }
        waiting.append(entry)
    }

    /// The next token that is to be verified now; nil where enough are, or none waits.
    mutating func next(isOpen: (SessionID) -> Bool) -> Entry? {
        guard underWayCount < Self.underWayLimit else { return nil }
        while first < waiting.count {
            let entry = waiting[first]
            first += 1
            if first == waiting.count { (waiting, first) = ([], 0) }
            guard isOpen(entry.session) else { continue }
            underWayCount += 1
            return entry
        }
        return nil
    }

    /// Notes that a verification has ended.
    mutating func finish() {
        assert(underWayCount > 0, "a verification ended that had not begun")
        underWayCount -= 1
    }
}
