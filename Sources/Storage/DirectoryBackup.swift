import PandoEngine
import PandoJournal

/// Reads or copies a data directory while a server may be running on it: what `pando backup` keeps.
package enum DirectoryBackup {
    /// Reads a directory as it was at one moment, or as it is now; a server may run on it. What was read is
    /// on the disk of the directory then: a power cut cannot take it from there, so no other record gets one
    /// of its sequences.
    /// - Parameters:
    ///   - moment: Nil for now.
    ///   - warn: Gets what is wrong where the directory cannot be synced; nil where that is an error.
    /// - Throws: ``StorageError``; `.badData` also where the journal that is kept does not reach that moment,
    ///   `.disk` also where the directory cannot be synced. Then `state` is unchanged.
    package static func read(
        _ path: String, until moment: PointInTime?, into state: inout RecoveredState,
        warn: ((String) -> Void)? = nil
    ) throws(StorageError) -> BackupSummary {
        let disk: SystemDisk
        do throws(DiskFailure) { disk = try SystemDisk(directory: path, create: false) } catch {
            throw StorageError(error)
        }
        return try read(disk, until: moment, into: &state, warn: warn)
    }

    /// The same on any disk.
    /// - Throws: ``StorageError``; then `state` is unchanged.
    static func read<Storage: Disk>(
        _ disk: Storage, until moment: PointInTime?, into state: inout RecoveredState,
        warn: ((String) -> Void)? = nil
    ) throws(StorageError) -> BackupSummary {
        let path = disk.directory
        var recovered = state
        let summary: RecoverySummary
        let history: TimelineHistory?
        do throws(JournalError) {
            if let moment {
                summary = try readDirectory(disk, until: moment, into: &recovered)
            } else {
                summary = try readDirectory(disk, into: &recovered)
            }
            history = try TimelineHistory.read(summary.timeline, on: disk)
        } catch {
            throw StorageError(error)
        }
        recovered.noteTime(of: summary.checkpoint)
        guard let directory = summary.directory else {
            throw .badData("\(path): the directory holds no data")
        }
        try refuse(moment, ifNotReachedIn: path, summary)
        do throws(DiskFailure) { try syncJournal(of: disk, readAs: summary) } catch {
            guard let warn else { throw StorageError(error) }
            warn(
                "\(error): the restored data is complete. But if a server runs on \(path), a power cut may remove its latest records there, which the restored copy has"
            )
        }
        state = recovered
        var result = BackupSummary(
            sequence: summary.lastSequence, timestamp: recovered.lastTime, directory: directory,
            timeline: summary.timeline)
        result.ancestors = history?.ancestors ?? []
        return result
    }

    /// Refuses a moment that the journal does not reach.
    static func refuse(
        _ moment: PointInTime?, ifNotReachedIn path: String, _ summary: RecoverySummary
    ) throws(StorageError) {
        guard case .sequence(let wanted)? = moment, summary.lastSequence < wanted, !summary.hasReachedMoment
        else { return }
        throw .badData(
            "\(path): the journal ends at sequence \(summary.lastSequence), before sequence \(wanted)")
    }

    /// Copies a directory with its journal, so that every moment that the journal reaches can be restored
    /// from the copy; a server may run on the source. Every checkpoint and every record of the copy is read
    /// and checked before it gets its name: it appears complete and without damage, or not at all.
    /// - Parameters:
    ///   - path: Where the copy is to be: a directory, a name that is free there, and another free name for
    ///     the copy until it is complete.
    ///   - progress: Called now and then with the bytes copied so far.
    /// - Throws: ``StorageError``; `.badData` also where what is damaged is needed only for earlier moments.
    package static func copy(
        _ source: String, to path: (parent: String, name: String, temporaryName: String),
        progress: (_ byteCount: Int) -> Void
    ) throws(StorageError) -> BackupSummary {
        let temporary = path.parent + "/" + path.temporaryName
        do throws(JournalError) {
            _ = try copyJournal(
                of: DataDirectory.openDisk(source, create: false),
                to: DataDirectory.openDisk(temporary, create: true), progress: progress
            )
        } catch {
            throw StorageError(error)
        }
        // A start reads from the newest checkpoint on; the moments before it need the rest, too.
        let report = try DataDirectory.inspectRecords(temporary) { _, _ in }
        if let damage = report.problems.first(where: \.isDamage) {
            throw .badData(
                "\(source): \(damage). There is no copy; without --with-log only the present state is backed up. `pando check data DIR` lists every problem"
            )
        }
        var state = RecoveredState(access: .locked)
        let summary = try read(temporary, until: nil, into: &state)
        do throws(DiskFailure) {
            let parent = try SystemDisk(directory: path.parent, create: false)
            try parent.rename(path.temporaryName, to: path.name)
            try parent.syncDirectory()
        } catch {
            throw .disk(error.description)
        }
        return summary
    }
}
