import Logging
import PandoBytes
import PandoEngine
import PandoJournal
import PandoReactor
import PandoRules

/// The data directory of a server or of an offline command, taken under its lock.
package enum DataDirectory {
    /// Opens a directory, making it when it is missing, and replays its log into `state`.
    /// - Parameter endsSessions: Ends the sessions that died with the last process, under the access that
    ///   `state` gives. A server does; an offline command leaves that to the next server.
    /// - Returns: The journal, everything in it durable.
    /// - Throws: ``StartError``; nothing was changed when it is `.badData` or `.locked`.
    package static func open(
        _ path: String, into state: inout RecoveredState, endsSessions: Bool,
        options: JournalOptions = .init(), logger: Logger
    ) throws(StartError) -> Journal<SystemDisk> {
        let disk: SystemDisk
        do throws(DiskFailure) {
            disk = try SystemDisk(directory: path, create: true)
        } catch {
            throw error.lacksDescriptors ? .machine("--data: \(error)") : .disk("--data: \(error)")
        }
        return try open(disk, into: &state, endsSessions: endsSessions, options: options, logger: logger)
    }

    /// The same behind any door to files.
    static func open<Storage: Disk>(
        _ disk: Storage, into state: inout RecoveredState, endsSessions: Bool,
        options: JournalOptions = .init(),
        surroundings: Environment = .machine, logger: Logger
    ) throws(StartError) -> Journal<Storage> {
        var recovered = state
        let began = surroundings.monotonicTime
        do throws(JournalError) {
            var journal = try Journal.open(
                on: disk, newDirectoryID: DirectoryID(surroundings.randomBits(), surroundings.randomBits()),
                options: options, into: &recovered)
            report(journal.recovery, in: surroundings.monotonicTime - began, disk.directory, logger)
            if endsSessions { try endDeadSessions(&recovered, &journal, surroundings) }
            state = recovered
            return journal
        } catch {
            throw StartError(error)
        }
    }

    private static func report(
        _ recovery: RecoverySummary, in time: Duration, _ path: String, _ logger: Logger
    ) {
        for problem in recovery.damagedCheckpoints {
            logger.error(
                "\(path): a damaged checkpoint was passed over for what came before it, and renamed: \(problem)"
            )
        }
        if recovery.isNew {
            logger.info("\(path): new data directory")
        } else {
            let checkpoint =
                recovery.checkpoint.map {
                    "a checkpoint at \($0.sequence) of \(recovery.checkpointRecordCount) records in "
                        + "\(recovery.checkpointByteCount) bytes, then "
                } ?? ""
            logger.info(
                "\(path): \(checkpoint)\(recovery.recordCount) records of the log read in \(time.inMilliseconds) ms, the last is \(recovery.lastSequence)"
            )
        }
        if recovery.unfilledByteCount > 0 {
            logger.info("\(path): \(recovery.unfilledByteCount) bytes of room that was prepared were cut off")
        }
        if recovery.tornByteCount > 0 {
            logger.warning(
                "\(path): \(recovery.tornByteCount) bytes of unfinished, never acknowledged writes were cut off"
            )
        }
    }

    /// A crash is a disconnect: what the dead sessions wanted written at their end is written before anybody
    /// connects.
    private static func endDeadSessions<Storage: Disk>(
        _ state: inout RecoveredState, _ journal: inout Journal<Storage>, _ surroundings: Environment
    ) throws(JournalError) {
        let clock = WallClock(notBefore: state.lastTime, in: surroundings)
        let time = clock.now()
        let entries = state.endDeadSessions(at: time)
        let byteCount = entries.reduce(0) { sum, entry in
            entry.records.reduce(sum) {
                $0 + JournalFormat.recordByteCount(payloadByteCount: $1.payload.count)
            }
        }
        // Known before it is written: a write that fails would be final.
        guard try journal.reserve(byteCount) else { throw .diskFull(byteCount: byteCount) }
        for (namespace, records) in entries {
            try journal.append(
                entry: records.map {
                    JournalRecord(
                        $0.kind.journalKind, namespace: namespace, timestamp: time, payload: $0.payload)
                })
        }
        try journal.write()
        try journal.sync()
    }

    /// Reads a directory without its lock and without changing it: what a server that runs on it has written
    /// so far.
    /// - Throws: ``StartError/badData(_:)`` when the log is damaged (other than torn at its end) or makes no
    ///   sense.
    package static func read(_ path: String, into state: inout RecoveredState) throws(StartError) {
        var recovered = state
        let disk: SystemDisk
        do throws(DiskFailure) { disk = try SystemDisk(directory: path, create: false) } catch {
            throw .disk(error.description)
        }
        do throws(JournalError) { _ = try readDirectory(disk, into: &recovered) } catch {
            throw StartError(error)
        }
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
            case .lockedByAnotherProcess, .notEmpty: .locked(error.description)
            case .corrupt, .entryTooLarge, .beforeLog, .noTimelineLeft: .badData(error.description)
            case .disk(let failure) where failure.lacksDescriptors: .machine(error.description)
            case .disk, .poisoned, .diskFull: .disk(error.description)
            }
    }
}
