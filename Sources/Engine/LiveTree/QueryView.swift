import PandoTree

/// One distinct query at one location, shared by all sessions that listen through it.
/// Invariant: there is at least one recipient.
///
/// A view is *stale* while it does not show the last writes. There are two such states, each with its way
/// out:
///
/// - It *awaits its replacement*: a window that takes long to find is marked by itself, and another thread
///   finds it anew.
/// - It *awaits the sweep*: a write above fifty thousand listens has no time to mark each of them, so the
///   sweep marks their location, and later steps update the windows there, most of which are small, without
///   another thread.
final class QueryView {
    let query: Query
    /// Its location.
    let path: Path
    var window: Window
    private(set) var recipients = MemberSet<[Push.TaggedRecipient]>()
    /// The recipients by session. Empty up to ``SessionListens/tagLimit`` recipients, since these are counted
    /// faster.
    private var tagCounts: [SessionID: Int] = [:]
    /// The state of a live aggregate; nil for a window. Where it is set, ``window`` is empty, and only its
    /// range is used.
    var aggregate: AggregateState?
    /// The scan for the children that the window lacks, or for all of it, or for the value of the aggregate;
    /// nil for none. Changed by ``ScanQueue`` alone, as long as it waits.
    var scan: Scan?
    /// What that scan goes on from: a window over an earlier snapshot, and that snapshot.
    var scanBase: (window: Window, node: Node)?
    /// The window is stale: a write had more windows to update than one step may. It is what the recipients
    /// were sent last; writes skip it, and the result of ``scan`` replaces it.
    var awaitsReplacement = false
    /// The children of the window that its recipients are charged with (``ResizedWindows``).
    var chargedChildCount = 0
    /// At least as many recipients as share the window in what each is charged with.
    var chargedRecipientCount = 0
    /// While the window awaited its replacement, recipients have begun to listen. They were sent newer data
    /// than the others have.
    var hasNewerRecipients = false
    /// The number of the last ``ViewSweep`` that the view is up to date with. It awaits a later one at its
    /// location or above (``awaitsSweep(_:)``).
    var checkedSweep = 0
    /// The window's range in ``ListenerDetails/finder``; nil while the location has few windows, and so no
    /// ranges.
    var place: (low: IndexPlace?, high: IndexPlace?, number: Int)?

    init(query: Query, at path: Path, window: Window) {
        self.query = query
        self.path = path
        self.window = window
        if !query.aggregates.isEmpty { aggregate = AggregateState() }
    }

    // MARK: Recipients

    /// Adds a recipient, unless it is there. O(1).
    func add(_ recipient: Push.TaggedRecipient) {
        guard recipients.insert(recipient) else { return }
        if !tagCounts.isEmpty {
            tagCounts[recipient.session, default: 0] += 1
        } else if recipients.count > SessionListens.tagLimit {
            for recipient in recipients.members { tagCounts[recipient.session, default: 0] += 1 }
        }
    }

    /// Removes a recipient, if it is there. O(1).
    func remove(_ recipient: Push.TaggedRecipient) {
        guard recipients.remove(recipient) else { return }
        if let count = tagCounts[recipient.session] {
            tagCounts[recipient.session] = count > 1 ? count - 1 : nil
        }
        // Well below the limit, so that what is counted near it is not counted repeatedly.
        if recipients.count < SessionListens.tagLimit / 2 { tagCounts = [:] }
    }

    /// The tags under which a session is a recipient. O(1).
    func tagCount(of session: SessionID) -> Int {
        tagCounts.isEmpty
            ? recipients.members.count { $0.session == session } : tagCounts[session] ?? 0
    }

    /// Traps when the tags of a session are miscounted. O(recipients); for tests.
    func checkInvariants() {
        let counts = Dictionary(grouping: recipients.members, by: \.session).mapValues(\.count)
        precondition(tagCounts.isEmpty || tagCounts == counts, "the tags of a session are miscounted")
        precondition(
            !tagCounts.isEmpty || recipients.count <= SessionListens.tagLimit, "tags are not counted")
    }

    /// How far the scan is that a view waits for.
    enum Scan {
        case waiting(LinkedQueue<QueryView>.Place)
        case waitingToFollow(LinkedQueue<QueryView>.Place)
        /// Its number: the result of another one is not awaited any more.
        case underWay(Int)
    }

    /// Whether the view waits for the result of the scan of this number.
    func awaits(_ number: Int) -> Bool {
        if case .underWay(number)? = scan { true } else { false }
    }

    /// What the recipients have been sent; nil where they have not been sent anything.
    var node: Node? {
        if let aggregate { aggregate.value } else { window.node }
    }
}

/// The value of a live aggregate.
struct AggregateState {
    /// What its recipients have been sent; nil before the first value.
    var value: Node?
    /// Whether a write has touched the range since the scan began that is under way: its result is not the
    /// current value.
    var isScanOutdated = false
}
