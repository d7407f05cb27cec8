import Logging
import PandoBytes
import PandoEngine
import PandoJournal
import PandoRules

/// The data directory of a server or of an offline command, taken under its lock.
package enum DataDirectory {
    /// Opens a directory, making it when it is missing, and replays its log into `state`.
    /// - Parameter endsSessions: Ends the sessions that died with the last process, under the access that `state` gives.
    ///   A server does; an offline command leaves that to the next server.
    /// - Returns: The journal, everything in it durable.
    /// - Throws: ``StartError``; nothing was changed when it is `.badData` or `.locked`.
    package static func open(
        _ path: String, into state: inout RecoveredState, endsSessions: Bool, logger: Logger
    ) throws(StartError) -> Journal<SystemDisk> {
        let disk: SystemDisk
        do throws(DiskFailure) {
            disk = try SystemDisk(directory: path, create: true)
        } catch {
            throw .disk("--data: \(error)")
        }
        var recovered = state
        do throws(JournalError) {
            var journal = try Journal.open(on: disk, newDirectoryID: makeDirectoryID()) {
                (entry: borrowing RecoveredEntry) throws(EntryRejection) in
                try entry.forEach { (record: borrowing RecoveredRecord) throws(EntryRejection) in
                    do throws(UnreadableRecord) {
                        try recovered.replay(
                            record.kind, namespace: record.namespace, time: record.timestamp, payload: record.payload)
                    } catch {
                        throw EntryRejection(error.reason)
                    }
                }
            }
            report(journal.recovery, path, logger)
            if endsSessions { try endDeadSessions(&recovered, &journal) }
            state = recovered
            return journal
        } catch {
            throw StartError(error)
        }
    }

    private static func makeDirectoryID() -> DirectoryID {
        var generator = SystemRandomNumberGenerator()
        return DirectoryID(generator.next(), generator.next())
    }

    private static func report(_ recovery: RecoverySummary, _ path: String, _ logger: Logger) {
        if recovery.isNew {
            logger.info("\(path): new data directory")
        } else {
            logger.info("\(path): \(recovery.recordCount) records read, the last is \(recovery.lastSequence)")
        }
        if recovery.tornByteCount > 0 {
            logger.warning(
                "\(path): \(recovery.tornByteCount) bytes of unfinished, never acknowledged writes were cut off")
        }
    }

    /// A crash is a disconnect: what the dead sessions wanted written at their end is written before anybody connects.
    private static func endDeadSessions(
        _ state: inout RecoveredState, _ journal: inout Journal<SystemDisk>
    ) throws(JournalError) {
        var clock = WallClock(notBefore: state.lastTime)
        let time = clock.now()
        for (namespace, records) in state.endDeadSessions(at: time) {
            try journal.append(
                entry: records.map {
                    JournalRecord($0.kind.journalKind, namespace: namespace, timestamp: time, payload: $0.payload)
                })
        }
        try journal.write()
        try journal.sync()
    }

    /// Reads a directory's log without its lock and without changing it: what a server that runs on it has written
    /// so far.
    /// - Throws: ``StartError/badData(_:)`` when the log is damaged (other than torn at its end) or makes no sense.
    package static func read(_ path: String, into state: inout RecoveredState) throws(StartError) {
        var recovered = state
        var problems: [String] = []
        let report = try inspectRecords(path) { record, payload in
            do throws(UnreadableRecord) {
                try recovered.replay(
                    record.kind, namespace: record.namespace, time: record.timestamp, payload: payload)
            } catch {
                problems.append("\(record.file), byte \(record.byteOffset): \(error.reason)")
            }
        }
        problems += report.problems.filter(\.isDamage).map(\.description)
        guard problems.isEmpty else { throw .badData(problems.joined(separator: "\n")) }
        state = recovered
    }

    /// Gives every intact record to `body`, in log order.
    package static func inspectRecords(
        _ path: String, _ body: (InspectedRecord, RawSpan) -> Void
    ) throws(StartError) -> InspectionReport {
        do throws(DiskFailure) {
            return try inspect(try SystemDisk(directory: path, create: false), record: body)
        } catch {
            throw .disk(error.description)
        }
    }
}

extension JournalProblem {
    /// False for a torn tail, which a crash leaves and the next start cuts off.
    package var isDamage: Bool {
        if case .tornTail = flaw { false } else { true }
    }
}

extension StartError {
    init(_ error: JournalError) {
        self =
            switch error {
            case .lockedByAnotherProcess: .locked(error.description)
            case .corrupt, .entryTooLarge: .badData(error.description)
            case .disk, .poisoned: .disk(error.description)
            }
    }
}
