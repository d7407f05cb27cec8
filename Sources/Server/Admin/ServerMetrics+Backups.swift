import PandoMetrics
import PandoStorage

// Scheduled backups, and the archive of the log.

extension ServerMetrics {
    var scheduledBackups: [MetricFamily] {
        let backups = backups
        return [
            MetricFamily(.counter, "pando_backups_total", "Scheduled backups, by how they ended.") {
                BackupMetrics.BackupEnd.allCases.map {
                    Sample(.unsigned(backups.backups.value(of: $0)), labels: [("result", "\($0)")])
                }
            },
            MetricFamily(
                .gauge, "pando_backup_last_success_timestamp_seconds",
                "When the newest scheduled backup was taken, since 1970; 0 for none."
            ) {
                .integer(backups.lastSuccessTime.value)
            },
            MetricFamily(
                .gauge, "pando_backup_interval_seconds",
                "Time between two scheduled backups (--backup-every); 0 for none."
            ) {
                .integer(backups.interval.value)
            },
            MetricFamily(
                .gauge, "pando_backup_size_bytes",
                "Size of the newest scheduled backup; 0 for none since the start."
            ) {
                .integer(backups.lastByteCount.value)
            },
            MetricFamily(
                .histogram, "pando_backup_write_seconds", "How long writing a scheduled backup takes."
            ) {
                .histogram(backups.times.snapshot)
            },
            MetricFamily(
                .counter, "pando_backup_drills_total",
                "Scheduled backups that were restored on trial (--backup-verify), by the result."
            ) {
                BackupMetrics.DrillEnd.allCases.map {
                    Sample(.unsigned(backups.drills.value(of: $0)), labels: [("result", "\($0)")])
                }
            },
            MetricFamily(
                .gauge, "pando_backup_drill_timestamp_seconds",
                "When a backup was last restored on trial with success, since 1970; 0 for not since the start."
            ) {
                .integer(backups.lastDrillTime.value)
            },
        ]
    }

    var archive: [MetricFamily] {
        let backups = backups
        return [
            MetricFamily(
                .gauge, "pando_archive_timestamp_seconds",
                "What was on disk at this time, since 1970, is in the archive of the log; 0 without --archive-to."
            ) {
                .integer(backups.archivedTime.value)
            },
            MetricFamily(
                .counter, "pando_archived_segments_total",
                "Segments of the log that were archived as a whole."
            ) {
                .unsigned(backups.archivedSegments.value)
            },
            MetricFamily(.counter, "pando_archived_bytes_total", "Bytes that were written to the archive.") {
                .unsigned(backups.archivedBytes.value)
            },
            MetricFamily(
                .counter, "pando_archive_failures_total", "Attempts to archive the log that failed."
            ) {
                .unsigned(backups.archiveFailures.value)
            },
            MetricFamily(
                .counter, "pando_archive_gaps_total",
                "Segments that were removed from the data directory before they were archived: gaps of the archive."
            ) {
                .unsigned(backups.archiveGaps.value)
            },
        ]
    }
}
