import PandoBytes
import PandoConnections
import PandoDatabase
import PandoEngine
import PandoReactor

// Messages to the databases, and their outputs.

extension IOLoop {
    // MARK: To the databases

    var hasMessages: Bool { !services.context.messages.isEmpty }

    func handOver() {
        services.context.hasHeavyMessage = false
        resources.database.post(movingFrom: &services.context.messages)
    }

    /// At the end of a tick. What it has brought, over all sessions, is a burst for the database thread,
    /// which is woken once for all of it, or so little that this loop does it itself (``DatabaseExecutor``).
    func flushMessages() {
        guard hasMessages else { return }
        if services.context.hasHeavyMessage { return handOver() }
        resources.database.process(&services.context.messages, onQueue: Int(index))
        // What the databases have left without a signal, behind what has waited since before.
        if let outputs { loop.deliver(outputs) }
        // What the outputs have led to must not wait until something else wakes the loop.
        if hasMessages { loop.wakeup.signal() }
    }

    // MARK: From the databases

    /// Deals outputs out, and gives back what held them.
    func deliver(_ batches: inout [OutputBatch]) {
        for index in batches.indices {
            let batch = exchange(&batches[index], with: OutputBatch())
            deliver(batch)
            if resources.outputBackpressure.remove(batch.byteCount) {
                resources.database.post(.outputsDelivered)
            }
            OutputBatch.recycle(consume batch, into: resources.spareOutputs)
        }
    }

    private func deliver(_ batch: OutputBatch) {
        let arena = batch.arena.rawSpan
        var pushCount = batch.pushCount
        for item in batch.items {
            switch item {
            case .frames(let id, let range): table[id]?.send(arena.extracting(range))
            case .shared(let bytes, let recipients):
                // One look at the table for all of them. Sessions leave it only at the end of a tick.
                let slots = table.slots
                for id in recipients {
                    guard let session = table.session(id, among: slots) else { continue }
                    session.send(bytes)
                    pushCount += 1
                }
            case .compressible(let frames, let recipients):
                let slots = table.slots
                var forms = FramesByWindow(frames)
                for id in recipients {
                    guard let session = table.session(id, among: slots) else { continue }
                    session.send(forms.bytes(for: session.window, services.context.compression))
                    pushCount += 1
                }
            case .large(let id, let message): table[id]?.send(message)
            case .rest(let id, let result): table[id]?.receive(result)
            case .events(let id, let events):
                table[id]?.receive(events)
                pushCount += 1
            case .windowMark(let id): table[id]?.windowMarkReturned()
            case .held(let id, let byteCount): table[id]?.hold(inDatabases: byteCount)
            case .close(let id, let reason): table[id]?.close(reason)
            case .resumeReading: resumeReading()
            }
        }
        measurements.add(began: batch.began, replyCount: batch.replyCount, pushCount: pushCount)
    }

    private func resumeReading() {
        services.isUnderBackpressure = false
        for id in exchange(&services.paused, with: []) { table[id]?.resumeAfterBackpressure() }
    }
}
