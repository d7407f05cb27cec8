import Logging

/// Where a server's messages go.
package struct ServerLog: Sendable {
    /// What the server says.
    package let messages: Logger
    /// The access log (`--access-log`): its lines are dropped where standard error does not take them in time.
    package let requests: Logger
    /// Writes both.
    package let writer: LogWriter

    package init(messages: Logger, requests: Logger, writer: LogWriter) {
        self.messages = messages
        self.requests = requests
        self.writer = writer
    }
}
