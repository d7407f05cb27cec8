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

    /// Deals a piece of the outputs out (``OutputPosition``), and gives back what held them.
    /// - Parameter batches: Those that have come; empty where some are left of earlier ones.
    /// - Returns: Whether some are left.
    func deliver(_ batches: inout [OutputBatch]) -> Bool {
        if batches.isEmpty { swap(&batches, &restOfOutputs) }
        position.beginPiece()
        let end = loop.configuration.clock() + OutputPosition.pieceDuration
        for index in batches.indices {
            let batch = exchange(&batches[index], with: OutputBatch())
            deliver(batch, until: end)
            guard position.isBehind(batch) else {
                batches[index] = batch
                restOfOutputs = Array(batches[index...])
                return true
            }
            measurements.add(
                began: batch.began, replyCount: batch.replyCount,
                pushCount: batch.pushCount + position.sharedCount)
            position.beginBatch()
            if resources.outputBackpressure.remove(batch.byteCount + batch.deliveryWeight) {
                resources.database.post(.outputsDelivered)
            }
            OutputBatch.recycle(consume batch, into: resources.spareOutputs)
        }
        return false
    }

    /// Deals out what is left of a batch, or of the piece.
    /// - Parameter end: When the piece ends, at the latest.
    private func deliver(_ batch: OutputBatch, until end: MonotonicTime) {
        let arena = batch.arena.rawSpan
        while !position.isPieceOver, !position.isBehind(batch) {
            position.endPiece(if: { loop.configuration.clock() >= end })
            if position.isPieceOver { return }
            switch batch.items[position.item] {
            case .shared(let bytes, let recipients):
                // One look at the table for all of them. Sessions leave it only at the end of a tick.
                let slots = table.slots
                for id in recipients[position.nextRecipients(of: recipients.count)] {
                    guard let session = table.session(id, among: slots) else { continue }
                    session.send(bytes)
                    position.sharedCount += 1
                }
            case .compressible(let frames, let recipients):
                let slots = table.slots
                var forms = position.forms.take() ?? FramesByWindow(frames)
                let range = position.nextRecipients(of: recipients.count)
                for id in recipients[range] {
                    guard let session = table.session(id, among: slots) else { continue }
                    session.send(forms.bytes(for: session.window, services.context.compression))
                    position.sharedCount += 1
                }
                if range.upperBound < recipients.count { position.forms = forms }
            case .frames(let id, let range):
                position.nextItem()
                table[id]?.send(arena.extracting(range))
            case .large(let id, let message):
                position.nextItem()
                table[id]?.send(message)
            case .rest(let id, let result):
                position.nextItem()
                table[id]?.receive(result)
            case .events(let id, let events):
                position.nextItem()
                table[id]?.receive(events)
                position.sharedCount += 1
            case .update(let id, let update):
                position.nextItem()
                table[id]?.receive(update)
                position.sharedCount += 1
            case .windowMark(let id):
                position.nextItem()
                table[id]?.windowMarkReturned()
            case .held(let id, let byteCount):
                position.nextItem()
                table[id]?.hold(inDatabases: byteCount)
            case .close(let id, let reason):
                position.nextItem()
                table[id]?.close(reason)
            case .resumeReading:
                position.nextItem()
                resumeReading()
            }
        }
    }

    private func resumeReading() {
        services.isUnderBackpressure = false
        for id in exchange(&services.paused, with: []) { table[id]?.resumeAfterBackpressure() }
    }
}
