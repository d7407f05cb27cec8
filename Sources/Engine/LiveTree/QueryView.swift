import PandoTree

/// One distinct query at one location, shared by all sessions that listen through it.
/// Invariant: there is at least one recipient.
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
    /// nil for none. Changed by ``IndexWork`` alone, as long as it waits.
    var scan: Scan?
    /// What that scan goes on from: a window over an earlier snapshot, and that snapshot.
    var scanBase: (window: Window, node: Node)?
    /// The window is out of date: a write had more windows to update than one step may. It is what the
    /// recipients were sent last; writes skip it, and a scan replaces it.
    var isBehind = false
    /// The children of the window that its recipients are charged with (``ResizedWindows``).
    var chargedChildCount = 0
    /// At least as many recipients as share the window in what each is charged with.
    var chargedRecipientCount = 0
    /// While the window was behind, recipients have begun to listen. They were sent newer data than the
    /// others have.
    var hasLateRecipients = false
    /// The number of the last ``ViewSweep`` that the view is up to date with.
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
    /// Whether a write has touched the range since the scan began that is under way.
    var isStale = false
}

// MARK: - Updating

extension QueryView {
    /// Replaces the window's data.
    /// - Returns: nil when the window is as it was.
    func replace(with node: Node, _ indexes: IndexCatalog) -> Push.Body? {
        let index = indexes.indexAfterReplacement(query.order, at: path, over: node)
        return window.replace(with: node, by: index).isEmpty ? nil : .overwrite(path, window.node)
    }

    /// Applies altered children to the window.
    /// - Parameter node: The location's data after the write.
    /// - Returns: nil when the window is as it was.
    func update(
        _ altered: [ChildChange], _ childrenAfterRemovals: [Key: Node], inside: [Change], _ node: Node,
        _ indexes: IndexCatalog
    ) -> Push.Body? {
        let difference = window.update(
            altered, in: node, by: indexes.indexForWindow(query.order, at: path, over: node),
            visitingAtMost: indexes.visitedChildCount)
        requestScanForMissingChildren(indexes)
        guard !difference.isEmpty else { return nil }
        if node.isEmpty { return .overwrite(path, .empty) }
        return body(of: difference) {
            entries(ofChanged: difference.changed, altered, childrenAfterRemovals, inside: inside)
        }
    }

    /// Takes the children that the window lacks.
    /// - Parameter found: The window over the data as it is now.
    /// - Returns: nil when there are none.
    func complete(from found: Window, _ indexes: IndexCatalog) -> Push.Body? {
        let difference = window.complete(from: found)
        requestScanForMissingChildren(indexes)
        guard !difference.isEmpty else { return nil }
        return body(of: difference) {
            difference.changed.map { Push.Entry(path: Path([$0.key]), node: $0.node) }
        }
    }

    /// Has another thread find the children that the window lacks, if it lacks any.
    func requestScanForMissingChildren(_ indexes: IndexCatalog) {
        if window.lacksChildren { indexes.work.addScan(for: self) }
    }

    /// The window is not updated any more, until another thread has found what it is then.
    func fallBehind(_ indexes: IndexCatalog) {
        isBehind = true
        // What is under way finds what it lacked, and not what it is.
        if case .underWay? = scan { indexes.work.cancelScan(for: self) }
        indexes.work.addScan(for: self)
    }

    /// Takes what another thread has found in place of a window that is behind.
    /// - Parameters:
    ///   - found: The window over an earlier snapshot.
    ///   - differences: What has changed since.
    ///   - node: The location's data now.
    /// - Returns: nil when that has changed nothing more.
    func catchUp(
        with found: Window, _ differences: [ChildChange], over node: Node, _ indexes: IndexCatalog
    ) -> Push.Body? {
        (isBehind, hasLateRecipients) = (false, false)
        checkedSweep = indexes.lastSweep
        window = found
        let difference = window.update(
            differences, in: node, by: indexes.index(query.order, at: path),
            visitingAtMost: indexes.visitedChildCount)
        requestScanForMissingChildren(indexes)
        guard !difference.isEmpty else { return nil }
        return body(of: difference) {
            difference.changed.map { Push.Entry(path: Path([$0.key]), node: $0.node) }
        }
    }

    /// - Parameter changed: The entries of children that stayed and changed.
    private func body(of difference: Window.Update, changed: () -> [Push.Entry]) -> Push.Body {
        // Children that left come first: a client with a full window must remove one before it adds one.
        var entries = difference.left.map { Push.Entry(path: Path([$0]), node: .empty) }
        entries += changed()
        entries += difference.entered.map { Push.Entry(path: Path([$0.key]), node: $0.node) }
        if entries.count > 1 { return .merge(path, entries) }
        return .overwrite(path.appending(entries[0].path.keys), entries[0].node)
    }

    /// Entries for the children that stayed in the window and changed: the changes in them.
    ///
    /// A client applies entries one by one. It removes a child from its window as soon as that does not
    /// belong there, and then ignores changes in it. So a child is sent whole that the removals alone would
    /// empty, or would leave without a value in the window's order.
    private func entries(
        ofChanged changed: [WindowEntry], _ altered: [ChildChange], _ childrenAfterRemovals: [Key: Node],
        inside: [Change]
    ) -> [Push.Entry] {
        if changed.isEmpty { return [] }
        var entries: [Push.Entry] = []
        var kept = Set(changed.map(\.key))
        if !childrenAfterRemovals.isEmpty {
            let order = window.query.order
            var emptied: Set<Key> = []
            for child in altered {
                guard let bare = childrenAfterRemovals[child.key] else { continue }
                if bare.isEmpty || order.value(of: bare).isEmpty && !order.value(of: child.old).isEmpty {
                    emptied.insert(child.key)
                }
            }
            for child in changed where emptied.contains(child.key) {
                entries.append(Push.Entry(path: Path([child.key]), node: child.node))
                kept.remove(child.key)
            }
        }
        for change in inside where kept.contains(change.path[path.count]) {
            entries.append(Push.Entry(path: path.relative(change.path), node: change.node))
        }
        return entries
    }
}
