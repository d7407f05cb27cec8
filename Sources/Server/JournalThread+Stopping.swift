import Logging
import PandoStorage

extension JournalThread {
    /// Makes everything durable, and ends the threads of the journal. A checkpoint that takes longer than
    /// `timeout` is cancelled: without it nothing is lost, and the next start reads more of the journal.
    /// - Parameter finish: What is still to be done in the directory before other processes may use it. It is
    ///   no part of the checkpoint, and has limits of its own.
    func stop(
        checkpointTimeout timeout: Duration, _ logger: Logger, beforeUnlocking finish: () -> Void = {}
    ) {
        let expired = { @Sendable in
            self.cancelCheckpoint()
            logger.notice(
                "stopping: the last checkpoint is cancelled after \(timeout.components.seconds) s; the next start reads the journal instead"
            )
        }
        withDeadline(timeout, expired: expired) { stopThreads() }
        finish()
        unlock()
    }
}
