import Logging
import PandoJournal

/// Removes archived segments that are kept no more; it has no thread of its own.
struct ArchiveTrimmer<Storage: Disk> {
    let metrics: BackupMetrics
    let logger: Logger

    /// Removes archived segments that are older than they are to be kept, and lie before the newest backup
    /// which is, too; where there is none, before the oldest backup; and before the newest that has passed a
    /// restore test. Newest and oldest are meant in the order of the journal.
    ///
    /// A failure is counted and logged, and the next backup is another attempt.
    func trim(_ archive: Storage, _ trim: ArchiveTrim) {
        do {
            let names = try superfluous(in: archive, trim)
            let (removed, failures) = archive.removeEach(of: names)
            for _ in failures { metrics.archiveRemovalFailures.add() }
            if let failure = failures.first {
                logger.warning(
                    "cannot remove \(failures.count) archived segments: \(failure); the next backup tries again"
                )
            }
            guard !removed.isEmpty else { return }
            try archive.syncDirectory()
            logger.info("archived segments removed: \(removed.joined(separator: ", "))")
        } catch {
            metrics.archiveRemovalFailures.add()
            logger.warning(
                "archived segments cannot be removed now; the next backup tries again: \(error)")
        }
    }

    /// - Throws: ``JournalError``, ``DiskFailure``.
    private func superfluous(in archive: Storage, _ trim: ArchiveTrim) throws -> [String] {
        let now = trim.time
        let keepTime = trim.options.archiveKeepTime.inMilliseconds
        let backups = try archived(trim, in: archive).sorted { $0.isBefore($1, at: now) }
        let ages = trim.options.retention.ages(
            of: backups, every: trim.options.interval.inMilliseconds, at: now)
        let old = backups.last(where: { (ages[$0]?.milliseconds ?? 0) >= keepTime }) ?? backups.first
        let needed = [old, trim.tested.flatMap { backups.contains($0) ? $0 : nil }].compactMap { $0 }
            .min { $0.isBefore($1, at: now) }
        guard let needed, let age = ages[needed] else { return [] }
        let covered = archivedSegments(
            of: try archive.list(), coveredBy: needed.timeline, needed.sequence)
        var names: [String] = []
        var times: [String: Int64?] = [:]
        for (file, behind) in covered {
            // All of its records are older than those behind it, and than the backup. A copy that cannot be
            // read, or has no entry, says nothing: the next one does.
            var limit = age.time
            for next in behind {
                let time: Int64? = times[next] ?? (try? firstTime(ofArchived: next, on: archive))
                times[next] = .some(time)
                guard let time else { continue }
                limit = min(limit, time)
                break
            }
            // Those behind it in the journal are younger.
            guard age.milliseconds + age.time - limit >= keepTime else { break }
            names.append(file)
        }
        return names
    }

    /// The backups whose records the archive has, too. The others cover none of its segments, whatever their
    /// names say: several data directories may be restored from one backup, have a timeline of the same
    /// number, and share a directory.
    private func archived(_ trim: ArchiveTrim, in archive: Storage) throws(JournalError) -> [BackupName] {
        let timelines = try ArchiveTimelines(of: archive)
        let timeline = try timelines.history(of: trim.header.timeline, orOf: trim.header)
        // The history, or the backup, says whose the timeline should be; the segments, whose it is.
        let owner = try timelines.directory(of: timeline.timeline)
        guard owner ?? timeline.directory == timeline.directory else { return [] }
        return trim.backups.filter {
            timeline.contains($0.header.timeline, of: $0.header.directory, upTo: $0.header.sequence)
        }.map(\.name)
    }
}

extension Disk {
    /// Removes files. One that cannot be removed does not keep the others.
    func removeEach(of names: [String]) -> (removed: [String], failures: [DiskFailure]) {
        var removed: [String] = []
        var failures: [DiskFailure] = []
        for name in names {
            do throws(DiskFailure) {
                try remove(name)
                removed.append(name)
            } catch {
                failures.append(error)
            }
        }
        return (removed, failures)
    }
}
