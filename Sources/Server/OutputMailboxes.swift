import PandoDatabase
import PandoReactor

/// The outputs of the databases on their way to I/O loops: one mailbox for each loop.
final class OutputMailboxes: OutputSink {
    let mailboxes: [Mailbox<OutputBatch>]

    init(_ mailboxes: [Mailbox<OutputBatch>]) {
        self.mailboxes = mailboxes
    }

    var queueCount: Int { mailboxes.count }

    func post(_ batch: consuming OutputBatch, to queue: Int, wakes: Bool) {
        mailboxes[queue].post(consume batch, signals: wakes)
    }
}
