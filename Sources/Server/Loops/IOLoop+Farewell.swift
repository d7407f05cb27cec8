import PandoReactor
import PandoTime

// When the process ends, clients get what was sent to them, and may close their connections themselves. A client that is
// gone, or only listens, does not answer: the others do not wait for it.

extension IOLoop {
    /// What has been written to the kernel arrives without the process. This is for clients that answer a close frame:
    /// several times the round trip to the other side of the world.
    private static let answerTime: Duration = .milliseconds(500)

    /// Calls `body` once the last session is gone, or nothing more has been sent for ``answerTime``, and nothing is unsent.
    func farewell(_ body: @escaping () -> Void) {
        onFarewellOver = body
        for session in sessions { session?.endIfIdle() }
        reportIfEmpty()
        waitForOutput(writtenByteCount)
    }

    func reportIfEmpty() {
        if freeSlots.count == sessions.count { reportFarewellOver() }
    }

    private func reportFarewellOver() {
        let body = onFarewellOver
        onFarewellOver = nil
        body?()
    }

    private func waitForOutput(_ before: Int) {
        guard onFarewellOver != nil else { return }
        loop.schedule(after: Self.answerTime) { [self] in
            let count = writtenByteCount
            let isSent = sessions.allSatisfy { $0?.hasUnsentOutput != true }
            // Less where clients have left.
            if isSent, count <= before { reportFarewellOver() } else { waitForOutput(count) }
        }
    }

    /// To all clients there are.
    private var writtenByteCount: Int { sessions.reduce(0) { $0 &+ ($1?.writtenByteCount ?? 0) } }
}
