import Glibc
import Logging
import PandoJournal
import PandoReactor

/// One entry for the journal: records that are recovered together or not at all.
struct JournalEntry: Sendable {
    /// The database thread's own number; grows by one an entry.
    var ticket: UInt64
    var records: [JournalRecord]
}

/// The journal thread: writes and syncs what has gathered since it last looked, and says how far it got.
///
///     entries ──▶ append … append ──▶ write ──▶ sync ──▶ durable(last ticket)      always
///                                          └──▶ durable(last ticket), sync by the clock    interval
///                                          └──▶ durable(last ticket), sync now and then    none
///
/// While the disk works, the database thread goes on and the next batch gathers: the slower the disk, the larger the
/// batches (group commit). A failed write or sync is final in every mode: the promise cannot be kept, so the process
/// says so and exits 74.
final class JournalThread: Sendable {
    private enum Order: Sendable {
        case entries([JournalEntry])
        case stop
    }

    /// How old an acknowledged write may be before it is synced. Under `none` nothing is promised, but each sync moves
    /// the mark below which recovery can tell damage from a torn end.
    private static func syncInterval(_ durability: Durability) -> Duration {
        switch durability {
        case .always: .zero
        case .interval: .milliseconds(100)
        case .none: .seconds(1)
        }
    }

    private let mailbox: Mailbox<Order>
    private let thread: NamedThread

    /// - Parameter durable: Is told each ticket up to which everything is as durable as `durability` asks.
    init(
        _ journal: consuming Journal<SystemDisk>, durability: Durability, durable: Mailbox<DatabaseMessage>,
        logger: Logger
    ) throws(SocketError) {
        let bell = try Bell()
        let mailbox = Mailbox<Order>(ringing: bell)
        self.mailbox = mailbox
        let writer = Writer(journal, durability, durable, logger)
        thread = try NamedThread.start("pando-journal") {
            var batch: [Order] = []
            while true {
                bell.wait(timeout: writer.timeUntilSync)
                mailbox.drain(into: &batch)
                let goesOn = writer.take(batch)
                batch.removeAll(keepingCapacity: true)
                if !goesOn { return }
            }
        }
    }

    /// Any thread; tickets ascend.
    func post(_ entries: [JournalEntry]) {
        mailbox.post(.entries(entries))
    }

    /// Makes everything durable, whatever the mode, and ends the thread.
    func stop() {
        mailbox.post(.stop)
        thread.join()
    }

    /// What lives on the thread.
    ///
    /// `@unchecked Sendable`: made before the thread begins, and used by nobody else.
    private final class Writer: @unchecked Sendable {
        private var journal: Journal<SystemDisk>
        private let durability: Durability
        private let durable: Mailbox<DatabaseMessage>
        private let logger: Logger
        /// When what was written must be synced; nil when all is.
        private var syncDeadline: MonotonicTime?

        init(
            _ journal: consuming Journal<SystemDisk>, _ durability: Durability, _ durable: Mailbox<DatabaseMessage>,
            _ logger: Logger
        ) {
            self.journal = journal
            self.durability = durability
            self.durable = durable
            self.logger = logger
        }

        var timeUntilSync: Duration? {
            syncDeadline.map { max(.zero, $0 - .now) }
        }

        /// - Returns: false when it was told to stop.
        func take(_ batch: [Order]) -> Bool {
            var last: UInt64?
            var goesOn = true
            do throws(JournalError) {
                for order in batch {
                    switch order {
                    case .entries(let entries):
                        for entry in entries {
                            try journal.append(entry: entry.records)
                            last = entry.ticket
                        }
                    case .stop: goesOn = false
                    }
                }
                if last != nil { try journal.write() }
                try syncIfDue(hasWritten: last != nil, isLast: !goesOn)
            } catch {
                logger.critical("the journal failed, no write can be promised any more: \(error)")
                // At once: nothing more may leave the process, and nothing is left to be tidied.
                _exit(74)
            }
            if let last { durable.post(.durable(last)) }
            return goesOn
        }

        private func syncIfDue(hasWritten: Bool, isLast: Bool) throws(JournalError) {
            if isLast { return try journal.sync() }
            switch durability {
            case .always:
                if hasWritten { try journal.sync() }
            case .interval, .none:
                if hasWritten, syncDeadline == nil { syncDeadline = .now + JournalThread.syncInterval(durability) }
                if let syncDeadline, syncDeadline <= .now {
                    try journal.sync()
                    self.syncDeadline = nil
                }
            }
        }
    }
}
