import PandoEngine
import PandoJournal
import PandoReactor
import Synchronization

/// Answers ``HistoryQuestion``s, one at a time, on a thread of its own: a read of the disk may take long.
package final class HistoryThread: Sendable {
    private struct Job: Sendable {
        let session: SessionID
        let question: HistoryQuestion
        let cancelled: CancellationFlag
        let finish: @Sendable (Result<HistoryResult, HistoryFailure>) -> Void
    }

    private enum Message: Sendable {
        case open
        case answer(Job)
    }

    private let thread: WorkerThread<Message>
    /// The questions that wait or are being answered: one for each session, at most
    /// ``HistoryLimits/questionCount``.
    private let pending = Mutex<[SessionID: CancellationFlag]>([:])

    /// Where more threads want to run than there are processors, all others come first.
    private static let niceness = 10
    /// Stack for what recurses: JSON nests up to 1024 deep.
    private static let stackByteCount = 8 << 20

    /// - Parameter open: Opens the disk, for ``openDisk()`` or the first question. Called on the thread,
    ///   which alone uses the disk.
    /// - Throws: ``SocketError`` where the process has no free descriptor or thread.
    package init<Storage: Disk>(
        _ open: @escaping @Sendable () throws(DiskFailure) -> Storage
    ) throws(SocketError) {
        thread = try WorkerThread(
            "pando-history", stackByteCount: Self.stackByteCount, niceness: Self.niceness)
        try thread.start { [weak self] queue in
            var opened: Storage?
            func disk() throws(HistoryFailure) -> Storage {
                if let opened { return opened }
                do throws(DiskFailure) {
                    let disk = try open()
                    opened = disk
                    return disk
                } catch {
                    throw .unreadable(error.description)
                }
            }
            while let message = queue.next() {
                guard case .answer(let job) = message else {
                    // What fails now is tried again for a question, whose answer then says so.
                    _ = try? disk()
                    continue
                }
                let answer: Result<HistoryResult, HistoryFailure>
                do throws(HistoryFailure) {
                    if job.cancelled.isSet || queue.isStopping { throw .cancelled }
                    let disk = try disk()
                    answer = .success(
                        try HistoryReader.history(job.question, on: disk, cancelled: job.cancelled))
                } catch {
                    answer = .failure(error)
                }
                self?.end(job)
                job.finish(answer)
            }
        }
    }

    private func end(_ job: Job) {
        pending.withLock { if $0[job.session] === job.cancelled { $0[job.session] = nil } }
    }

    /// Any thread: opens the disk now, so that later questions are about this directory, whatever takes its
    /// place at its path.
    package func openDisk() { thread.post(.open) }

    /// Any thread: asks a question. A session has one at a time.
    /// - Parameter finish: Called once, on the thread, or at once where too many questions wait.
    package func ask(
        _ question: HistoryQuestion, for session: SessionID,
        finish: @escaping @Sendable (Result<HistoryResult, HistoryFailure>) -> Void
    ) {
        let cancelled = CancellationFlag()
        let isAccepted = pending.withLock { pending in
            guard pending.count < HistoryLimits.questionCount, pending[session] == nil else { return false }
            pending[session] = cancelled
            return true
        }
        guard isAccepted else { return finish(.failure(.busy)) }
        let job = Job(session: session, question: question, cancelled: cancelled, finish: finish)
        if !thread.post(.answer(job)) { finish(.failure(.cancelled)) }
    }

    /// Any thread: nothing waits for the session's answer any more. It does not come, or comes as
    /// ``HistoryFailure/cancelled``.
    package func cancel(_ session: SessionID) {
        pending.withLock { $0[session] }?.isSet = true
    }

    /// Gives up all questions, and ends the thread.
    package func stop() {
        pending.withLock { pending in for flag in pending.values { flag.isSet = true } }
        thread.stop()
    }
}
