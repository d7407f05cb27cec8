import PandoJournal
import Synchronization

/// What has become superfluous in the archive with a new backup. The backup thread says it and the archive
/// thread removes it, so that no backup waits for the disk of the archive.
package struct ArchiveTrim: Sendable {
    /// A backup that is kept, with its header.
    struct Backup: Sendable {
        var name: BackupName
        var header: CheckpointHeader
    }

    /// Those of this data directory whose header can be read, in no particular order.
    var backups: [Backup]
    /// The newest that has passed a restore test; nil for none.
    var tested: BackupName?
    /// Of the newest backup.
    var header: CheckpointHeader
    /// When that was made, by the machine's clock; milliseconds since 1970.
    var time: Int64
    /// As they were then.
    var options: BackupOptions

    /// The latest trim that was not done yet. One thread sets it, another takes it.
    package final class Latest: Sendable {
        private let trim = Mutex<ArchiveTrim?>(nil)

        package init() {}

        /// Replaces an earlier one that was not taken: what is superfluous stays so.
        func set(_ new: ArchiveTrim) { trim.withLock { $0 = new } }
        var isWaiting: Bool { trim.withLock { $0 != nil } }
        func take() -> ArchiveTrim? { trim.withLock { $0.take() } }
    }
}
