import PandoDatabase
import PandoLoops
import PandoReactor
import PandoStorage

/// What ``AdminReports`` report of, beside what the I/O loops share.
package struct AdminSources {
    /// The main thread's loop.
    let main: EventLoop
    let ioLoops: [IOLoop]
    let database: DatabaseMetrics
    let storage: StorageMetrics
    let backups: BackupMetrics
    let status: ServerStatus
    let logTail: LogTail

    package init(
        main: EventLoop, ioLoops: [IOLoop], database: DatabaseMetrics, storage: StorageMetrics,
        backups: BackupMetrics, status: ServerStatus, logTail: LogTail
    ) {
        self.main = main
        self.ioLoops = ioLoops
        self.database = database
        self.storage = storage
        self.backups = backups
        self.status = status
        self.logTail = logTail
    }
}
