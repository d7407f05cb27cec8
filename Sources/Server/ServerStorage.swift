import Logging
import PandoAdministration
import PandoDatabase
import PandoJournal
import PandoReactor
import PandoSettings
import PandoStorage

/// What a server recovers, and its journal; with `--memory` there is neither.
struct ServerStorage {
    let state: RecoveredState
    let journal: JournalThread?
    /// Where the journal begins and goes on; nil with --memory.
    private(set) var origin: JournalOrigin?
    /// The checkpoint before which there is no journal; nil where there is none.
    private(set) var beginning: CheckpointHeader?

    /// Recovers the data directory, and starts the journal thread.
    /// - Throws: What ``DataDirectory`` and the journal throw.
    init(
        _ configuration: Configuration, recoveringInto state: consuming RecoveredState, mark: JournalMark,
        _ database: DatabaseExecutor, _ metrics: StorageMetrics, _ logger: Logger
    ) throws {
        var state = state
        state.metrics = metrics
        if let path = configuration.dataDirectory {
            let files = MachineMetrics.files(in: path)
            metrics.recoverableBytes.set(files.newestCheckpointByteCount + files.journalByteCount)
            // Minutes, where there is very much. A directory may be left like this at any time.
            Signals.setEndsProcess(true)
            defer { Signals.setEndsProcess(false) }
            let opened = try DataDirectory.open(
                path, into: &state, endsSessions: true, options: configuration.storage.journalOptions,
                logger: logger)
            Signals.setEndsProcess(false)
            metrics.set(state.snapshot.treeSize)
            var origin = JournalOrigin(opened)
            // Without what this start has appended: records of a journal that was set back would count.
            origin.sequence = opened.recovery.lastSequence
            self.origin = origin
            beginning = opened.recovery.checkpoint.flatMap { $0.beginsJournal ? $0 : nil }
            journal = try JournalThread(
                opened, checkpointDisk: try SystemDisk(directory: path, create: false),
                segmentDisk: try SystemDisk(directory: path, create: false), options: configuration.storage,
                metrics: metrics, mark: mark, logger: logger
            ) { event in
                if case .durable(let ticket) = event {
                    database.release(upTo: ticket)
                } else {
                    database.post(.storage(event))
                }
            }
        } else {
            journal = nil
        }
        for warning in state.warnings { logger.error("\(warning)") }
        self.state = state
    }
}
