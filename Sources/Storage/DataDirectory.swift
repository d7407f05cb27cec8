import Logging
import PandoBytes
import PandoEngine
import PandoJournal
import PandoReactor
import PandoRules
import PandoTime

/// A data directory: opening it for a server or an offline command, and reading it beside a server.
package enum DataDirectory {
    /// Opens a directory, creating it where it is missing, locks it, and recovers its content into `state`.
    /// - Parameter endsSessions: Whether to end the sessions that the last process had when it died, under
    ///   the access that `state` gives. A server does; an offline command leaves that to the next server. On
    ///   a full disk some are left to ``RecoveredState/unendedSessions``.
    /// - Returns: The journal; everything in it is durable.
    /// - Throws: ``StorageError``; after `.badData`, `.locked` and `.unusable` the directory is unchanged.
    ///   `.locked` also for a directory that holds other files and no journal.
    /// - Complexity: O(bytes of the newest checkpoint and the journal behind it).
    package static func open(
        _ path: String, into state: inout RecoveredState, endsSessions: Bool,
        options: JournalOptions = .init(), logger: Logger
    ) throws(StorageError) -> Journal<SystemDisk> {
        let disk: SystemDisk
        do throws(DiskFailure) {
            disk = try SystemDisk(directory: path, create: true)
        } catch {
            throw StorageError(error, option: "--data")
        }
        return try open(disk, into: &state, endsSessions: endsSessions, options: options, logger: logger)
    }

    /// The same on any disk.
    /// - Throws: ``StorageError``; then `state` is as it was.
    package static func open<Storage: Disk>(
        _ disk: Storage, into state: inout RecoveredState, endsSessions: Bool,
        options: JournalOptions = .init(),
        environment: Environment = .machine, logger: Logger
    ) throws(StorageError) -> Journal<Storage> {
        var recovered = state
        let began = environment.monotonicTime
        do throws(JournalError) {
            var journal = try Journal.open(
                on: disk, newDirectoryID: DirectoryID(environment.randomBits(), environment.randomBits()),
                options: options, into: &recovered)
            recovered.noteTime(of: journal.recovery.checkpoint)
            report(journal.recovery, in: environment.monotonicTime - began, disk.directory, logger)
            reportClock(behind: recovered.lastTime, environment, disk.directory, logger)
            if endsSessions { try endDeadSessions(&recovered, &journal, environment, logger) }
            state = recovered
            return journal
        } catch {
            throw StorageError(error)
        }
    }

    /// A machine's clock that is further behind the journal is reported at the start: milliseconds.
    private static let reportedClockLag: Int64 = 60_000

    /// The times of records never go back, so a clock that was once ahead stops the time of all clients.
    private static func reportClock(
        behind lastTime: Int64, _ environment: Environment, _ path: String, _ logger: Logger
    ) {
        let (lag, overflows) = lastTime.subtractingReportingOverflow(environment.wallMilliseconds)
        guard !overflows, lag > reportedClockLag else { return }
        logger.error(
            "\(path): the newest record was written \(lag / 1000) s after the time that this machine's clock shows now; until the clock has reached that time, timestamps of new writes stand still. Check the clock; if it was wrong when the record was written, see 'A clock that was wrong' in operating.md"
        )
    }

    private static func report(
        _ recovery: RecoverySummary, in time: Duration, _ path: String, _ logger: Logger
    ) {
        for problem in recovery.damagedCheckpoints {
            logger.error(
                problem.flaw.isReadFailure
                    ? "\(path): a checkpoint cannot be read; an older one and the journal behind it were read instead, and the file was left as it is: \(problem); look for a failing disk"
                    : "\(path): a checkpoint is damaged; an older one and the journal behind it were read instead, and the damaged file was renamed: \(problem)"
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
                "\(path): recovered \(checkpoint)\(recovery.recordCount) records of the journal in \(time.inMilliseconds) ms, the last is \(recovery.lastSequence)"
            )
        }
        if recovery.unfilledByteCount > 0 {
            logger.info(
                "\(path): \(recovery.unfilledByteCount) bytes that were reserved at the end of the journal were given back"
            )
        }
        if let tail = recovery.tornTail { logger.warning("\(path): \(tail.report)") }
    }

    /// A crash disconnects all sessions: their onDisconnect writes are applied and written to the journal
    /// before any client can connect. Where the disk has no space for them, they wait in
    /// ``RecoveredState/unendedSessions``.
    private static func endDeadSessions<Storage: Disk>(
        _ state: inout RecoveredState, _ journal: inout Journal<Storage>, _ environment: Environment,
        _ logger: Logger
    ) throws(JournalError) {
        let clock = WallClock(notBefore: state.lastTime, in: environment)
        let time = clock.now()
        let hasSessions = !state.unendedSessions.isEmpty
        try state.endDeadSessions(at: time) { namespace, records throws(JournalError) in
            let byteCount = records.reduce(0) {
                $0 + JournalFormat.recordByteCount(payloadByteCount: $1.payload.count)
            }
            // Reserved first, because a write that fails would be final.
            guard try journal.reserve(byteCount) else { return false }
            try journal.append(
                entry: records.map {
                    JournalRecord(
                        $0.kind.journalKind, namespace: namespace, timestamp: time, payload: $0.payload)
                })
            return true
        }
        if hasSessions { state.noteTime(time) }
        try journal.write()
        try journal.sync()
        let waitingCount = state.unendedSessions.count
        guard waitingCount > 0 else { return }
        logger.error(
            "the disk is full: the onDisconnect writes of \(waitingCount) sessions that the last process had when it ended run as soon as there is space; free some space"
        )
    }

    /// Reads a directory without locking or changing it: everything that a server which runs on it has
    /// written so far.
    /// - Throws: ``StorageError/badData(_:)`` where the journal is damaged (other than torn at its end) or
    ///   makes no sense.
    package static func read(_ path: String, into state: inout RecoveredState) throws(StorageError) {
        var recovered = state
        let disk: SystemDisk
        do throws(DiskFailure) { disk = try SystemDisk(directory: path, create: false) } catch {
            throw StorageError(error)
        }
        do throws(JournalError) { _ = try readDirectory(disk, into: &recovered) } catch {
            throw StorageError(error)
        }
        state = recovered
    }

    /// Gives every intact record to `body`, in the order of the journal.
    /// - Throws: ``StorageError``, as ``inspect(_:record:)`` throws.
    package static func inspectRecords(
        _ path: String, _ body: (InspectedRecord, RawSpan) -> Void
    ) throws(StorageError) -> InspectionReport {
        do throws(DiskFailure) {
            return try inspect(try SystemDisk(directory: path, create: false), record: body)
        } catch {
            throw StorageError(error)
        }
    }

    /// Whether a directory holds segments or checkpoints of a journal.
    /// - Throws: ``StorageError/disk(_:)``.
    package static func isDataDirectory(_ path: String) throws(StorageError) -> Bool {
        do throws(DiskFailure) {
            return try !DirectoryContents(of: SystemDisk(directory: path, create: false)).journalFiles.isEmpty
        } catch {
            throw .disk(error.description)
        }
    }

    static func openDisk(_ path: String, create: Bool) throws(JournalError) -> SystemDisk {
        do throws(DiskFailure) { return try SystemDisk(directory: path, create: create) } catch {
            throw .disk(error)
        }
    }
}

extension TornTail {
    /// What was cut off, what that means, and where it is now.
    fileprivate var report: String {
        let kept =
            if let copy {
                copiedByteCount < byteCount
                    ? "The first \(copiedByteCount) of them are kept in \(copy)" : "They are kept in \(copy)"
            } else {
                "They are not kept\(shortage.map { ": \($0)" } ?? "")"
            }
        return
            "\(byteCount) bytes at the end of the journal were cut off: those of \(segment.text), from byte \(byteOffset) on, where sequence \(sequence) begins. They are writes that the last process had not finished or not synced; with --durability always, none of them was acknowledged. But if that process was idle when it ended, the disk has damaged its last writes: then acknowledged writes are missing, and a backup or the archive may have them. \(kept)"
    }
}
