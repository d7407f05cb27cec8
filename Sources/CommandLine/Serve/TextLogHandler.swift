import Logging
import PandoLog

/// Writes log messages as swift-log's handler for streams does: time, level, metadata, source, text
/// (``PandoLog/LogLine``).
struct TextLogHandler: LogHandler {
    private var base: StreamLogHandler
    private let writer: LogWriter
    private let level: LogLevel

    /// - Parameter isOfRequests: For the access log.
    init(label: String, to writer: LogWriter, isOfRequests: Bool, from level: LogLevel) {
        base = StreamLogHandler(
            label: label, stream: LogStream(writer: writer, isOfRequests: isOfRequests),
            metadataProvider: nil)
        self.writer = writer
        self.level = level
    }

    /// That of all loggers of the process.
    var logLevel: Logger.Level {
        get { level.current }
        set { level.current = newValue }
    }

    var metadata: Logger.Metadata {
        get { base.metadata }
        set { base.metadata = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { base[metadataKey: key] }
        set { base[metadataKey: key] = newValue }
    }

    func log(event: LogEvent) {
        base.log(event: event)
        // The process may end at once.
        if event.level == .critical { writer.flush() }
    }
}

/// One line for each text.
private struct LogStream: TextOutputStream, Sendable {
    let writer: LogWriter
    let isOfRequests: Bool

    func write(_ text: String) { writer.append(LogLine.bytes(text), isOfRequest: isOfRequests) }
}
