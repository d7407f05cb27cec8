import PandoRules
import PandoTree

// Engines and the queued writes of their sessions (``QueuedWrites``).

extension Engine {
    /// Queued writes that are decided and done at once: some two milliseconds. Where rules are asked for each
    /// of them, fewer.
    package static let queueCountAtOnce = 512
    package static let judgedQueueCountAtOnce = 128
    /// The same in bytes of the paths' keys, of which one may have 24 KiB: some 0.3 ms.
    package static let queueKeyByteCountAtOnce = 256 << 10
    /// The same in bytes, where rules are asked.
    package static let judgedQueueByteCountAtOnce = 64 << 10
    /// More of them are tried out first: are there steps enough at once?
    private static let (untriedQueueCount, untriedQueueByteCount) = (16, 4 << 10)

    /// The number of writes that the session has queued, and about their bytes in the journal. O(1).
    package func queueSize(of session: SessionID) -> (count: Int, byteCount: Int) {
        queues[session].map { ($0.count, $0.byteCount) } ?? (0, 0)
    }

    /// What another thread should do before a session ends; nil where that is nothing. O(listens and indexes
    /// on the way to the first queued write), and ``RulesLimits/stepsAtOnce`` of the rules.
    /// - Parameter countAtOnce: Queued writes that need no other thread.
    package func preparation(
        forEndOf session: SessionID, at time: Int64, moreThan countAtOnce: Int = Engine.queueCountAtOnce
    ) -> WritePreparation? {
        guard let queue = queues[session] else { return nil }
        let asksRules = access.decisionWithoutRules(for: .anonymous) == nil
        guard
            queue.count > (asksRules ? min(countAtOnce, Self.judgedQueueCountAtOnce) : countAtOnce)
                || queue.keyByteCount > Self.queueKeyByteCountAtOnce
                || asksRules
                    && (access.searchesTexts || queue.byteCount > Self.judgedQueueByteCountAtOnce
                        || rulesTakeLong(for: queue, at: time))
        else { return nil }
        return WritePreparation(
            of: QueuedEnd(session: session, queue: queue),
            in: WritePreparation.Snapshot(root: tree.root, access: access, time: time),
            indexBuilds(onTheWayTo: queue.firstPath))
    }

    /// Whether to decide about the queued writes takes more steps of the rules than there are at once.
    private func rulesTakeLong(for queue: DisconnectQueue, at time: Int64) -> Bool {
        guard queue.count > Self.untriedQueueCount || queue.byteCount > Self.untriedQueueByteCount else {
            return false
        }
        var writes = QueuedWrites(
            access: access, root: tree.root, at: time, isTracking: false, stepCount: RulesLimits.stepsAtOnce)
        _ = writes.permitted(queue.pending)
        return writes.isExhausted
    }

    /// The end of this session as it was prepared, if it was.
    func preparedEnd(of session: SessionID) -> PreparedEnd? {
        guard let end = preparedWrite?.end, end.session == session,
            queues[session]?.revision == end.revision
        else { return nil }
        return end
    }
}
