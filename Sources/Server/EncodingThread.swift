import PandoBytes
import PandoEngine
import PandoReactor

/// A large message to encode, and where the bytes go.
struct EncodingJob: Sendable {
    var session: SessionID
    var message: DeferredMessage
    var answer: Mailbox<EncodedMessage>
}

struct EncodedMessage: Sendable {
    var session: SessionID
    /// Ready framed, in pieces that are sent one after the other as the client reads them; nil when the message is
    /// larger than clients can take.
    var pieces: [SharedBytes]?
}

/// Prints large nodes, from snapshots, while the database and the loops go on (design: threads and ownership).
final class EncodingThread: Sendable {
    private let bell: Bell
    private let jobs: Mailbox<EncodingJob?>
    private let thread: NamedThread

    init() throws(SocketError) {
        let bell = try Bell()
        let jobs = Mailbox<EncodingJob?>(ringing: bell)
        self.bell = bell
        self.jobs = jobs
        thread = try NamedThread.start("pando-encode", stackByteCount: 8 << 20) {
            var batch: [EncodingJob?] = []
            while true {
                bell.wait()
                jobs.drain(into: &batch)
                for job in batch {
                    guard let job else { return }
                    job.answer.post(EncodedMessage(session: job.session, pieces: job.message.encoded()))
                }
                batch.removeAll()
            }
        }
    }

    func post(_ job: EncodingJob) {
        jobs.post(job)
    }

    /// Finishes what was asked for, then ends the thread.
    func stop() {
        jobs.post(nil)
        thread.join()
    }
}
