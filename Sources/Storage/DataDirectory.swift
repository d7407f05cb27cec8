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
    /// - Parameter endsSessions: Whether to end the sessions that the last process had when it died, under the
    ///   access that `state` gives. A server does; an offline command leaves that to the next server.
    /// - Returns: The journal; everything in it is durable.
    /// - Throws: ``StorageError``; after `.badData`, `.locked` and `.unusable` the directory is unchanged. `.locked` also for
    ///   a directory that holds other files and no journal.
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
            report(journal.recovery, in: environment.monotonicTime - began, disk.directory, logger)
            if endsSessions { try endDeadSessions(&recovered, &journal, environment) }
            state = recovered
            return journal
        } catch {
            throw StorageError(error)
        }
    }

    private static func report(
        _ recovery: RecoverySummary, in time: Duration, _ path: String, _ logger: Logger
    ) {
        for problem in recovery.damagedCheckpoints {
            logger.error(
                "\(path): a checkpoint is damaged; an older one and the journal behind it were read instead, and the damaged file was renamed: \(problem)"
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
        if recovery.tornByteCount > 0 {
            logger.warning(
                "\(path): \(recovery.tornByteCount) bytes of unfinished writes, which were never acknowledged, were cut off the end of the journal"
            )
        }
    }

    /// A crash disconnects all sessions: their onDisconnect writes are applied and written to the journal before any client
    /// can connect.
    private static func endDeadSessions<Storage: Disk>(
        _ state: inout RecoveredState, _ journal: inout Journal<Storage>, _ environment: Environment
    ) throws(JournalError) {
        let clock = WallClock(notBefore: state.lastTime, in: environment)
        let time = clock.now()
        let entries = state.endDeadSessions(at: time)
        let byteCount = entries.reduce(0) { sum, entry in
            entry.records.reduce(sum) {
                $0 + JournalFormat.recordByteCount(payloadByteCount: $1.payload.count)
            }
        }
        // Reserved first, because a write that fails would be final.
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

    /// Reads a directory without locking or changing it: everything that a server which runs on it has written
    /// so far.
    /// - Throws: ``StorageError/badData(_:)`` where the journal is damaged (other than torn at its end) or makes no
    ///   sense.
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
    /// - Throws: ``StorageError/disk(_:)``.
    package static func inspectRecords(
        _ path: String, _ body: (InspectedRecord, RawSpan) -> Void
    ) throws(StorageError) -> InspectionReport {
        do throws(DiskFailure) {
            return try inspect(try SystemDisk(directory: path, create: false), record: body)
        } catch {
            throw StorageError(error)
        }
    }
}
