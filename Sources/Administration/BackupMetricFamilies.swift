import PandoMetrics
import PandoStorage

/// The metrics of scheduled backups, and of the archive of the journal.
struct BackupMetricFamilies {
    typealias Sample = MetricFamily.Sample

    let metrics: ServerMetrics

    var all: [MetricFamily] { scheduledBackups + archive }

    private var scheduledBackups: [MetricFamily] {
        let backups = metrics.backups
        return [
            MetricFamily(.counter, "pando_scheduled_backups_total", "Scheduled backups, by how they ended.") {
                BackupMetrics.BackupEnd.allCases.map {
                    Sample(.unsigned(backups.backups.value(of: $0)), labels: [("result", "\($0)")])
                }
            },
            MetricFamily(
                .gauge, "pando_scheduled_backup_timestamp_seconds",
                "When the newest scheduled backup was taken, since 1970; 0 for none."
            ) {
                .integer(backups.lastSuccessTime.value)
            },
            MetricFamily(
                .gauge, "pando_scheduled_backup_interval_seconds",
                "Time between two scheduled backups (--backup-every); 0 for none."
            ) {
                .integer(backups.interval.value)
            },
            MetricFamily(
                .gauge, "pando_scheduled_backup_size_bytes",
                "Size of the newest scheduled backup; 0 for none since the start."
            ) {
                .integer(backups.lastByteCount.value)
            },
            MetricFamily(
                .histogram, "pando_scheduled_backup_write_seconds",
                "How long writing a scheduled backup takes."
            ) {
                .histogram(backups.times.snapshot)
            },
            MetricFamily(
                .gauge, "pando_scheduled_backups_unreadable",
                "Backups in --backup-to whose beginning cannot be read, as of the newest backup: they are neither counted nor removed."
            ) {
                .integer(backups.unreadableBackups.value)
            },
            MetricFamily(
                .counter, "pando_backup_removal_failures_total",
                "Attempts to remove old backups or archived segments that failed."
            ) {
                .unsigned(backups.removalFailures.value + backups.archiveRemovalFailures.value)
            },
            MetricFamily(
                .counter, "pando_restore_tests_total",
                "Restore tests (--backup-verify) of a scheduled backup, and of the archive behind one, by the result."
            ) {
                BackupMetrics.RestoreTestSource.allCases.flatMap { source in
                    BackupMetrics.RestoreTestEnd.allCases.map {
                        Sample(
                            .unsigned(backups.testCount($0, of: source)),
                            labels: [("source", source.rawValue), ("result", "\($0)")])
                    }
                }
            },
            MetricFamily(
                .gauge, "pando_restore_test_timestamp_seconds",
                "When the last restore test passed, since 1970; 0 for none."
            ) {
                .integer(backups.lastTestTime.value)
            },
        ]
    }

    private var archive: [MetricFamily] {
        let backups = metrics.backups
        return [
            MetricFamily(
                .gauge, "pando_backup_disk_free_bytes",
                "Free space of the file system of --backup-to (use backup) and --archive-to (use archive), as of the last backup and the last minute."
            ) {
                BackupUse.allCases.map {
                    Sample(
                        .integer(backups.space(of: $0).freeByteCount.value), labels: [("use", $0.rawValue)])
                }
            },
            MetricFamily(
                .gauge, "pando_backup_disk_size_bytes", "Size of the file systems of these directories."
            ) {
                BackupUse.allCases.map {
                    Sample(.integer(backups.space(of: $0).byteCount.value), labels: [("use", $0.rawValue)])
                }
            },
            MetricFamily(
                .gauge, "pando_backup_operation_seconds",
                "How long the operation under way in the directory of --backup-to (use backup) or --archive-to (use archive) has lasted; 0 for none. Its disk does not answer while this grows."
            ) {
                BackupUse.allCases.map {
                    Sample(
                        .integer(backups.activity(of: $0).duration().components.seconds),
                        labels: [("use", $0.rawValue)])
                }
            },
            MetricFamily(
                .gauge, "pando_archive_enabled",
                "1 where the journal is to be archived (--archive-to), else 0."
            ) {
                .integer(backups.isArchiving.value)
            },
            MetricFamily(
                .gauge, "pando_archive_timestamp_seconds",
                "What was on disk at this time, since 1970, is in the archive of the journal; 0 where nothing was archived since the start."
            ) {
                .integer(backups.archivedTime.value)
            },
            MetricFamily(
                .counter, "pando_archive_segments_total",
                "Segments of the journal that were archived as a whole."
            ) {
                .unsigned(backups.archivedSegments.value)
            },
            MetricFamily(.counter, "pando_archive_bytes_total", "Bytes that were written to the archive.") {
                .unsigned(backups.archivedBytes.value)
            },
            MetricFamily(
                .counter, "pando_archive_failures_total",
                "Attempts to archive the journal that failed, by the reason: a disk that fails, a directory that is missing, an archive that contradicts the journal, damage."
            ) {
                BackupMetrics.ArchiveFailure.allCases.map {
                    Sample(.unsigned(backups.archiveFailures.value(of: $0)), labels: [("reason", "\($0)")])
                }
            },
            MetricFamily(
                .counter, "pando_archive_gaps_total",
                "Gaps of the archive: segments that were removed from the data directory before they were archived, and imports, which are in no journal."
            ) {
                .unsigned(backups.archiveGaps.value)
            },
        ]
    }
}
