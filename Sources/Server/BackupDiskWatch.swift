import Logging
import PandoReactor
import PandoStorage

/// Logs where the disk of the backups, or of the archive, does not answer for long. Confined to the main
/// thread, which never waits for these disks.
final class BackupDiskWatch {
    private static let interval: Duration = .seconds(5)

    private struct Watched {
        let directory: BackupDirectory
        let activity: DiskActivity
        var reports = LongStepReports()
    }

    private let loop: EventLoop
    private let logger: Logger
    private var watched: [Watched]

    init(of directories: [BackupDirectory], _ metrics: BackupMetrics, on loop: EventLoop, _ logger: Logger) {
        self.loop = loop
        self.logger = logger
        watched = directories.map { Watched(directory: $0, activity: metrics.activity(of: $0.use)) }
    }

    /// Begins to look. Never ends: it is for as long as the loop runs.
    func start() {
        loop.schedule(after: Self.interval) { [self] in
            for index in watched.indices { look(at: &watched[index]) }
            start()
        }
    }

    private func look(at one: inout Watched) {
        let directory = one.directory
        switch one.reports.report(lasting: one.activity.duration()) {
        case .lasts(let duration):
            logger.error(
                "\(directory.use.option): an operation in \(directory.path) has not ended for \(duration.components.seconds) s: the disk does not answer, or is very slow. Clients are served; \(directory.use.omission) until it ends"
            )
        case .ended:
            logger.notice("\(directory.use.option): the disk of \(directory.path) answers again")
        case nil: break
        }
    }
}

extension BackupUse {
    /// What is not done while the disk does not answer.
    fileprivate var omission: String {
        switch self {
        case .backups: "no backup is made"
        case .archive: "the journal is not archived"
        }
    }
}
