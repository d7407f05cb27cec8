import Glibc
import Logging
import PandoDatabase
import PandoReactor

/// Ends a process that is to stop, and whose databases are blocked: sessions cannot be ended, nor the threads
/// that run the databases be joined. Nothing is lost by that: what was acknowledged is as durable as
/// `--durability` promises, and onDisconnect writes run at the next start.
enum BlockedTurn {
    /// How long one turn of the databases may take while the server stops (our own limit): together with what
    /// follows it, below what the service managers of deploy/ wait before they kill the process, 60 s and
    /// more. A turn that ends thousands of sessions takes some seconds.
    static let stopLimit: Duration = .seconds(30)
    /// How often it is looked at.
    private static let interval: Duration = .seconds(1)
    /// A fault of the server or of the machine.
    private static let exitCode: Int32 = 70

    /// What is logged when the process ends for a turn; nil for one that may go on.
    static func exitMessage(unfinishedTurn: Duration?) -> String? {
        guard let unfinishedTurn, unfinishedTurn > stopLimit else { return nil }
        return """
            stopping: the databases have been blocked for \(unfinishedTurn.components.seconds) s (a step on the thread \
            pando-database, or on the I/O or journal thread that runs them, has not ended), so the process ends now, with exit \
            code \(exitCode). What was acknowledged is kept, and onDisconnect writes run at the next start. Look for a disk \
            that does not answer
            """
    }

    /// Looks at the databases until the process has ended. On the thread of `main`, which does not run them.
    static func watch(_ database: DatabaseExecutor, on main: EventLoop, _ logger: Logger) {
        if let text = exitMessage(unfinishedTurn: database.unfinishedTurn()) {
            logger.critical("\(text)")
            // At once: other threads wait for what does not end.
            _exit(exitCode)
        }
        _ = main.schedule(after: interval) { watch(database, on: main, logger) }
    }
}
