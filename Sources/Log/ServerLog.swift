import Logging
import PandoReactor
import Synchronization

/// The least severe level that is logged. All loggers of a process share it, so that it can change while they
/// are in use.
package final class LogLevel: Sendable {
    private let index: Atomic<Int>

    /// - Parameter level: The first one.
    package init(_ level: Logger.Level) { index = Atomic(Self.index(of: level)) }

    /// Any thread may read and set it.
    package var current: Logger.Level {
        get { Logger.Level.allCases[index.load(ordering: .relaxed)] }
        set { index.store(Self.index(of: newValue), ordering: .relaxed) }
    }

    private static func index(of level: Logger.Level) -> Int {
        Logger.Level.allCases.firstIndex(of: level) ?? 0
    }
}

/// Where a server's messages go.
package struct ServerLog: Sendable {
    /// What the server says.
    package let messages: Logger
    /// The access log (`--access-log`): its lines are dropped where standard error does not take them in
    /// time.
    package let requests: Logger
    /// Writes both.
    package let writer: LogWriter
    /// Of both.
    package let level: LogLevel

    package init(messages: Logger, requests: Logger, writer: LogWriter, level: LogLevel) {
        self.messages = messages
        self.requests = requests
        self.writer = writer
        self.level = level
    }

    /// Starts the thread that writes: from now on no other thread waits for standard error.
    /// - Throws: ``SocketError`` where the process has no free thread.
    package func startWriter() throws(SocketError) {
        try writer.start { [messages] count in
            messages.warning(
                "dropped \(count) lines of the log: standard error is read more slowly than lines are written"
            )
        }
    }
}
