import PandoReactor
import PandoStorage

// A batch is what is processed in one go: its journal entries are posted, and its outputs held until they are
// durable.

extension DatabaseHost {
    /// Bytes of outputs, and of journal entries, from which on a batch is sealed before the next message.
    private static let batchByteLimit = 1 << 20
    private static let entryBatchByteLimit = 8 << 20

    /// - Returns: Whether the batch was ended.
    @discardableResult
    func sealIfLarge() -> Bool {
        let isLarge =
            processor.encoder.byteCount > Self.batchByteLimit
            || processor.journal.pendingByteCount > Self.entryBatchByteLimit
        if isLarge { seal() }
        return isLarge
    }

    /// Ends a batch: its journal entries go to the journal thread, its outputs wait for the last of them.
    func seal() {
        processor.journal.flush()
        if processor.journal.isEnabled, isCheckpointDue || wantsFinalCheckpoint {
            isCheckpointDue = false
            // Everything committed so far is in the entries before it, and nothing else.
            processor.journal.post(processor.databases.snapshot(at: processor.clock.now()))
        }
        if let request = backupRequest.take() { processor.giveSnapshot(to: request) }
        let ticket = processor.journal.lastTicket
        let batches = processor.encoder.takeBatches(refillingFrom: outputs.pool)
        if processedByteCount > 0 || batches.contains(where: { !$0.isEmpty }) {
            pauseOrResume(outputs.backpressure.add(batches.reduce(0) { $0 + $1.byteCount }))
            gate.hold(batches, until: ticket, requestByteCount: processedByteCount)
            processedByteCount = 0
        }
        processor.releases.flush()
        release()
        if let onDrained, gate.isDurable(ticket), gate.isEmpty {
            self.onDrained = nil
            onDrained()
        }
    }

    /// Whether all sessions have ended, and the next start would have much of the journal to read.
    private var wantsFinalCheckpoint: Bool {
        guard onDrained != nil, !isFinalCheckpointPosted, processor.journal.wantsFinalCheckpoint else {
            return false
        }
        isFinalCheckpointPosted = true
        return true
    }

    /// The journal thread: everything up to this ticket is durable. Releases what waits for it.
    /// - Returns: false, and nothing is done, while the server stops: then ``receive(_:onQueue:)`` must get
    ///   the event.
    package func release(upTo ticket: UInt64) -> Bool {
        guard !isDraining else { return false }
        currentQueue = nil
        confirm(upTo: ticket)
        release()
        return true
    }

    /// Releases what has become durable while messages are processed. O(1) where nothing has.
    func releaseReported() {
        guard let ticket = durableTicket?.reported, !gate.isDurable(ticket) else { return }
        confirm(upTo: ticket)
        release()
    }

    /// Notes how far the journal is durable.
    func confirm(upTo ticket: UInt64) {
        precondition(
            !processor.journal.isEnabled || ticket <= processor.journal.lastTicket,
            "an entry is durable that was never appended")
        gate.confirm(upTo: ticket)
    }

    /// Posts the outputs that have become durable, in order.
    func release() {
        var resumes = false
        gate.release { held in
            if requestBackpressure.remove(held.requestByteCount) { resumes = true }
            for queue in held.outputs.indices where !held.outputs[queue].isEmpty {
                // Moved out: the queue's thread is its only owner.
                post(exchange(&held.outputs[queue], with: OutputBatch()), to: queue)
            }
        }
        if resumes {
            for queue in 0..<outputs.count { post(OutputBatch(items: [.resumeReading]), to: queue) }
        }
        processor.metrics.heldBatches.set(gate.count)
    }

    private func pauseOrResume(_ advice: Backpressure.Advice) {
        switch advice {
        case .proceed: break
        case .pause: isWaiting = true
        case .resumeAll: isWaiting = false
        }
    }

    /// The weight of a delivery counts from now on: outputs that wait for the disk keep no loop busy.
    private func post(_ batch: consuming OutputBatch, to queue: Int) {
        pauseOrResume(outputs.backpressure.add(batch.deliveryWeight))
        outputs.post(consume batch, to: queue, signals: queue != currentQueue)
    }

    /// Indexes of all databases that are ready: for a simulation that must know whether queries used any.
    package var readyIndexCount: Int {
        processor.databases.all.reduce(0) { $0 + $1.engine.tree.readyIndexCount }
    }

    /// Takes out the outputs that wait to become durable, in the order of their decision: for a simulation
    /// that must know what a server had decided when it died.
    package func takeHeld() -> [OutputBatch] { gate.removeAll().flatMap { $0 } }
}
