import PandoDatabase
import PandoMetrics
import PandoStorage

/// The metrics of what the databases and the data directory hold.
struct StorageMetricFamilies {
    typealias Sample = MetricFamily.Sample

    let metrics: ServerMetrics

    var all: [MetricFamily] { databases + disk + recovery }

    // MARK: Databases

    private var databases: [MetricFamily] {
        let (database, storage) = (metrics.database, metrics.storage)
        return [
            MetricFamily(.gauge, "pando_databases", "Databases (namespaces).") {
                .integer(database.databases.value)
            },
            MetricFamily(.gauge, "pando_listens", "Listens of all sessions, by whether they have a query.") {
                [
                    Sample(.integer(database.defaultListens.value), labels: [("kind", "default")]),
                    Sample(.integer(database.filteredListens.value), labels: [("kind", "query")]),
                ]
            },
            MetricFamily(
                .gauge, "pando_windows", "Query windows that are kept; several listeners may share one."
            ) {
                .integer(database.windows.value)
            },
            MetricFamily(.gauge, "pando_indexes", "Indexes, ready or being built.") {
                .integer(database.indexes.value)
            },
            MetricFamily(
                .gauge, "pando_on_demand_index_bytes",
                "Memory of the indexes that no rule declares, as --index-memory counts it."
            ) {
                .integer(database.onDemandIndexBytes.value)
            },
            MetricFamily(
                .gauge, "pando_clock_lag_seconds",
                "How far the machine's clock is behind the newest record of the journal; timestamps stand still until it is 0."
            ) {
                .integer(database.clockLag.value)
            },
            MetricFamily(
                .gauge, "pando_index_entries",
                "Children in all indexes that are ready; a child counts in each of them."
            ) {
                .integer(database.indexEntries.value)
            },
            MetricFamily(
                .gauge, "pando_tree_nodes",
                "Locations that have data, leaves and objects, of all databases. Counted every 10 s after a write; large trees less often."
            ) {
                .integer(storage.treeNodes.value)
            },
            MetricFamily(
                .gauge, "pando_tree_bytes",
                "About how many bytes the JSON of all databases has. Counted every 10 s after a write; large trees less often."
            ) {
                .integer(storage.treeBytes.value)
            },
            MetricFamily(
                .gauge, "pando_held_output_batches",
                "Batches of outputs that wait for the sync of what they depend on."
            ) {
                .integer(database.heldBatches.value)
            },
        ]
    }

    // MARK: The disk

    private var disk: [MetricFamily] {
        let (storage, machine, database) = (metrics.storage, metrics.machine, metrics.database)
        return [
            MetricFamily(.gauge, "pando_disk_free_bytes", "Free space of the data directory's file system.") {
                .integer(machine.diskFreeBytes.value)
            },
            MetricFamily(.gauge, "pando_disk_size_bytes", "Size of the data directory's file system.") {
                .integer(machine.diskBytes.value)
            },
            MetricFamily(.gauge, "pando_disk_full", "1 while writes are refused because the disk is full.") {
                .integer(storage.isDiskFull.value)
            },
            MetricFamily(.gauge, "pando_journal_size_bytes", "Size of all files of the journal.") {
                .integer(machine.journalFileBytes.value)
            },
            MetricFamily(
                .counter, "pando_journal_written_bytes_total", "Bytes that were written to the journal."
            ) {
                .unsigned(storage.writtenBytes.value)
            },
            MetricFamily(.gauge, "pando_journal_files", "Files of the journal.") {
                .integer(machine.journalFileCount.value)
            },
            MetricFamily(
                .gauge, "pando_journal_oldest_timestamp_seconds",
                """
                When the oldest file of the journal was last written, since 1970; 0 for none. A restore to a \
                moment can go back about that far.
                """
            ) {
                .integer(machine.oldestJournalTime.value)
            },
            MetricFamily(
                .gauge, "pando_journal_uncovered_bytes", "Bytes of journal that no checkpoint covers."
            ) {
                .integer(storage.uncoveredJournalBytes.value)
            },
            MetricFamily(
                .gauge, "pando_checkpoint_due_bytes",
                "Bytes of journal after which a checkpoint is due (--checkpoint-bytes)."
            ) {
                .integer(storage.checkpointDueBytes.value)
            },
            MetricFamily(.counter, "pando_checkpoints_total", "Checkpoints, by how they ended.") {
                StorageMetrics.CheckpointEnd.allCases.map {
                    Sample(.unsigned(storage.checkpoints.value(of: $0)), labels: [("result", "\($0)")])
                }
            },
            MetricFamily(.histogram, "pando_checkpoint_write_seconds", "How long writing a checkpoint takes.")
            {
                .histogram(storage.checkpointTimes.snapshot)
            },
            MetricFamily(.gauge, "pando_checkpoint_size_bytes", "Size of all checkpoint files.") {
                .integer(machine.checkpointFileBytes.value)
            },
            MetricFamily(
                .gauge, "pando_checkpoint_timestamp_seconds",
                "When the newest checkpoint was written, since 1970; 0 for none."
            ) {
                .integer(machine.newestCheckpointTime.value)
            },
            MetricFamily(
                .counter, "pando_backup_downloads_started_total", "Backups that clients began to download."
            ) {
                .unsigned(database.backups.value)
            },
            MetricFamily(
                .counter, "pando_backup_downloads_finished_total", "Backups that were read to their end."
            ) {
                .unsigned(database.finishedBackupCount)
            },
            MetricFamily(
                .gauge, "pando_backup_download_timestamp_seconds",
                "When the last backup was read to its end, since 1970; 0 for none since the start."
            ) {
                .integer(database.lastBackupTime)
            },
        ]
    }

    private var recovery: [MetricFamily] {
        let storage = metrics.storage
        return [
            MetricFamily(
                .counter, "pando_recovered_records_total", "Records that recovery has read at the start."
            ) {
                .unsigned(storage.recoveredRecords.value)
            },
            MetricFamily(
                .counter, "pando_recovered_bytes_total",
                "Bytes of the records that recovery has read at the start."
            ) {
                .unsigned(storage.recoveredBytes.value)
            },
            MetricFamily(
                .gauge, "pando_recoverable_bytes",
                "Bytes of the newest checkpoint and of the journal at the start: recovery reads no more."
            ) {
                .integer(storage.recoverableBytes.value)
            },
        ]
    }
}
