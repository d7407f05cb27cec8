import PandoReactor
import PandoTime

/// When the process ends, clients get what was sent to them, and may close their connections themselves. A
/// client that is gone, or only listens, does not answer: the others do not wait for it. Confined to the
/// loop.
final class ShutdownWait {
    /// What has been written to the kernel arrives without the process. This is for clients that answer a
    /// close frame: several times the round trip to the other side of the world.
    private static let answerTime: Duration = .milliseconds(500)

    private let table: SessionTable
    private let loop: EventLoop
    /// nil before ``begin(_:)``, and after the wait.
    private var onEnd: (() -> Void)?

    init(_ table: SessionTable, on loop: EventLoop) {
        self.table = table
        self.loop = loop
    }

    /// Closes connections that are idle.
    /// - Parameter onEnd: Called on the loop once, when the last session is gone, or when nothing is unsent
    ///   and nothing more was sent for ``answerTime``.
    func begin(_ onEnd: @escaping () -> Void) {
        self.onEnd = onEnd
        for session in table.slots { session?.endIfIdle() }
        sessionHasEnded()
        waitForOutput(after: writtenByteCount)
    }

    /// Call it whenever a session has left the table.
    func sessionHasEnded() {
        if table.isEmpty { end() }
    }

    private func end() {
        let onEnd = onEnd
        self.onEnd = nil
        onEnd?()
    }

    /// - Parameter before: ``writtenByteCount`` at the last look.
    private func waitForOutput(after before: Int) {
        guard onEnd != nil else { return }
        loop.schedule(after: Self.answerTime) { [self] in
            let count = writtenByteCount
            let isSent = table.slots.allSatisfy { $0?.hasUnsentOutput != true }
            if isSent, count == before { end() } else { waitForOutput(after: count) }
        }
    }

    /// To all clients there are.
    private var writtenByteCount: Int { table.slots.reduce(0) { $0 &+ ($1?.writtenByteCount ?? 0) } }
}
