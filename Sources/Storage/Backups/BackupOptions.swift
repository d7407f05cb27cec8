import PandoJournal

/// What is copied elsewhere while the server runs: scheduled backups, and the journal.
package struct BackupOptions: Sendable {
    /// The time between two scheduled backups; zero for none.
    package var interval: Duration = .zero
    /// Where scheduled backups are put.
    package var directory: String?
    package var retention = BackupRetention()
    /// Every so many backups there is a restore test; 0 for never.
    package var testInterval = 0
    /// Where the journal is copied to; nil for nowhere.
    package var archiveDirectory: String?
    /// How far back archived segments are kept, where there are scheduled backups; zero for all.
    package var archiveKeepTime: Duration = .seconds(7 * 86_400)

    package init() {}

    /// The range of ``interval`` and ``archiveKeepTime``.
    package static let secondsRange = 1...365 * 86_400
    /// The largest ``testInterval``.
    package static let highestTestInterval = 1_000_000
}
