import PandoBytes
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoReactor
import PandoTime

// Messages to the databases, and their outputs.

extension IOLoop {
    // MARK: To the databases

    var hasMessages: Bool { !services.context.messages.isEmpty }

    /// At the end of a tick. What it has brought, over all sessions, is a burst for the database thread,
    /// which is woken once for all of it, or so little that this loop does it itself (``DatabaseExecutor``).
    func flushMessages() {
        guard hasMessages else { return }
        if services.context.hasHeavyMessage { return host.handOver() }
        resources.database.process(&services.context.messages, onQueue: Int(index))
        // What the databases have left without a signal, behind what has waited since before.
        if let outputs { loop.deliver(outputs) }
        // What the outputs have led to must not wait until something else wakes the loop.
        if hasMessages { loop.wakeup.signal() }
    }

    // MARK: From the databases

    /// Delivers a piece of the outputs (``OutputPosition``), and gives back what held them; then those
    /// outputs early that are for clients which have kept up (``OutputBacklog``).
    /// - Parameter batches: Those that have come; empty where some are left of earlier ones.
    /// - Returns: Whether some are left.
    func deliver(_ batches: inout [OutputBatch]) -> Bool {
        if !backlog.isEmpty {
            assert(batches.isEmpty)
            // What has come since is behind them, and may be delivered early.
            var arrived: [OutputBatch] = []
            resources.outputs[Int(index)].drain(into: &arrived)
            batches = backlog.take()
            batches += arrived
        }
        position.beginPiece()
        let end = loop.configuration.clock() + OutputPosition.pieceDuration
        var deliveredCount = 0
        while deliveredCount < batches.count {
            let batch = exchange(&batches[deliveredCount], with: OutputBatch())
            deliver(batch, until: end)
            guard position.isBehind(batch) else {
                // Moved: its items are changed where they are.
                batches[deliveredCount] = consume batch
                batches.removeFirst(deliveredCount)
                backlog.put(back: exchange(&batches, with: []), deliveredCount: deliveredCount)
                deliverEarly()
                return true
            }
            finish(consume batch)
            deliveredCount += 1
        }
        backlog.put(back: [], deliveredCount: deliveredCount)
        return false
    }

    private func deliverEarly() {
        let end = loop.configuration.clock() + OutputPosition.earlyDuration
        backlog.deliverEarly(
            behind: position, isOver: { [loop] in loop.configuration.clock() >= end },
            urgency: { [table] in table[$0]?.urgency ?? .none }, deliver: deliver(_:item:))
    }

    /// All of a batch is delivered.
    private func finish(_ batch: consuming OutputBatch) {
        measurements.add(
            began: batch.began, replyCount: batch.replyCount,
            pushCount: batch.pushCount + position.sharedCount)
        position.beginBatch()
        if resources.outputBackpressure.remove(batch.byteCount + batch.deliveryWeight) {
            resources.database.post(.outputsDelivered)
        }
        OutputBatch.recycle(batch, into: resources.spareOutputs)
    }

    /// Delivers what is left of a batch, or of the piece.
    /// - Parameter end: When the piece ends, at the latest.
    private func deliver(_ batch: OutputBatch, until end: MonotonicTime) {
        while !position.isPieceOver, !position.isBehind(batch) {
            position.endPiece(if: { loop.configuration.clock() >= end })
            if position.isPieceOver { return }
            switch batch.items[position.item] {
            case .shared(let bytes, let recipients):
                position.sharedCount += send(
                    bytes, to: recipients[position.nextRecipients(of: recipients.count)])
            case .compressible(let frames, let recipients):
                var forms = position.forms.take() ?? FramesByForm(frames)
                let range = position.nextRecipients(of: recipients.count)
                position.sharedCount += send(&forms, to: recipients[range])
                if range.upperBound < recipients.count { position.forms = forms }
            case .tagged(let push):
                let range = position.nextRecipients(of: push.recipients.count, haveOwn: true)
                position.sharedCount += send(push, to: range)
            case .events, .update, .window:
                position.sharedCount += deliver(batch, item: position.item)
                position.nextItem()
            case .frames, .large, .rest, .windowMark, .held, .close, .resumeReading, .delivered:
                _ = deliver(batch, item: position.item)
                position.nextItem()
            }
        }
    }

    /// Delivers one item to all its recipients.
    /// - Returns: How many of them still have a session.
    private func deliver(_ batch: OutputBatch, item: Int) -> Int {
        switch batch.items[item] {
        case .shared(let bytes, let recipients): return send(bytes, to: recipients[...])
        case .compressible(let frames, let recipients):
            var forms = FramesByForm(frames)
            return send(&forms, to: recipients[...])
        case .tagged(let push): return send(push, to: push.recipients.indices)
        case .frames(let id, let range): table[id]?.send(batch.arena.rawSpan.extracting(range))
        case .large(let id, let message): table[id]?.send(message)
        case .rest(let id, let result): table[id]?.receive(result)
        case .events(let id, let events): table[id]?.receive(events)
        case .update(let id, let update): table[id]?.receive(update)
        case .window(let id, let window): table[id]?.receive(window)
        case .windowMark(let id): table[id]?.windowMarkReturned()
        case .held(let id, let byteCount): table[id]?.hold(inDatabases: byteCount)
        case .close(let id, let reason): table[id]?.close(reason)
        case .resumeReading: resumeReading()
        case .delivered: break
        }
        return 1
    }

    /// Sends shared frames.
    /// - Returns: How many of the recipients have a session here.
    private func send(_ bytes: SharedBytes, to recipients: ContiguousArray<SessionID>.SubSequence) -> Int {
        // One look at the table for all of them. Sessions leave it only at the end of a tick.
        let slots = table.slots
        var count = 0
        for id in recipients {
            guard let session = table.session(id, among: slots) else { continue }
            session.send(bytes)
            count += 1
        }
        return count
    }

    /// Sends shared frames in the form that each session takes.
    /// - Returns: How many of the recipients have a session here.
    private func send(
        _ forms: inout FramesByForm, to recipients: ContiguousArray<SessionID>.SubSequence
    ) -> Int {
        let slots = table.slots
        var count = 0
        for id in recipients {
            guard let session = table.session(id, among: slots) else { continue }
            let form = session.form
            let bytes = forms.bytes(for: form, services.context.compression)
            if case .script = form { session.send(script: bytes) } else { session.send(bytes) }
            count += 1
        }
        return count
    }

    /// Sends some recipients of a push the messages for their tags.
    /// - Returns: How many of the recipients have a session here.
    private func send(_ push: TaggedPush, to range: Range<Int>) -> Int {
        let slots = table.slots
        var writer: TaggedPushWriter?
        var count = 0
        for recipient in push.recipients[range] {
            guard let session = table.session(recipient.session, among: slots) else { continue }
            count += 1
            if push.isLarge {
                session.send(push.largeMessage(for: recipient.tag))
                continue
            }
            // Moved: its buffers are not copied.
            var printing = writer.take() ?? push.makeWriter()
            if printing.print(for: recipient.tag) {
                session.send(printing.frames.rawSpan)
            } else {
                session.close(.finished)
            }
            writer = consume printing
        }
        return count
    }

    private func resumeReading() {
        services.isUnderBackpressure = false
        for id in exchange(&services.paused, with: []) { table[id]?.resumeAfterBackpressure() }
    }
}
