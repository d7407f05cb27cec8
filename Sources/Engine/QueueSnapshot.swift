/// The queued writes of all sessions at one moment.
package struct QueueSnapshot: Sendable {
    fileprivate let queues: [(session: SessionID, queue: DisconnectQueue)]

    /// The records that restore the queues in an engine without any, one for each queued write. O(queues).
    package var records: [EngineRecord] {
        queues.flatMap { session, queue in
            queue.pending.map { .registered(session, [$0.write], $0.credentials) }
        }
    }
}

extension Engine {
    /// The queued writes of all sessions, for a checkpoint that another thread writes. O(sessions).
    package var queueSnapshot: QueueSnapshot {
        QueueSnapshot(queues: queues.all)
    }

    /// The records of ``queueSnapshot``.
    package var queueRecords: [EngineRecord] { queueSnapshot.records }

    /// About the bytes of the session's queue in the journal. O(1).
    package func queuedByteCount(of session: SessionID) -> Int { queues[session]?.byteCount ?? 0 }
}
