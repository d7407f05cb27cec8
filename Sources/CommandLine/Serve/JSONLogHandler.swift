import Glibc
import Logging
import PandoBytes
import PandoLog
import PandoTree

/// Writes log messages as JSON, one object in each line:
///
///     {"time":"2026-11-21T18:30:00.123Z","level":"info","message":"…","source":"PandoServer"}
///
/// Metadata are further members.
struct JSONLogHandler: LogHandler {
    let writer: LogWriter
    /// It is that of the access log.
    let isOfRequests: Bool
    private let level: LogLevel
    var metadata: Logger.Metadata = [:]

    init(to writer: LogWriter, isOfRequests: Bool, from level: LogLevel) {
        self.writer = writer
        self.isOfRequests = isOfRequests
        self.level = level
    }

    /// That of all loggers of the process.
    var logLevel: Logger.Level {
        get { level.current }
        set { level.current = newValue }
    }

    /// Metadata that are numbers. All others are texts, whatever they look like: clients choose some of them.
    private static let numeric: Set = ["status", "microseconds"]

    /// Members that a message has anyway; metadata of these names are left out.
    private static let reserved: Set = ["time", "level", "message", "source"]

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var time = timespec()
        _ = unsafe clock_gettime(CLOCK_REALTIME, &time)
        let milliseconds = Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
        let all = metadata.merging(event.metadata ?? [:]) { $1 }
        let line = Self.line(
            at: milliseconds, event.level, "\(event.message)", source: event.source, all)
        writer.append(line, isOfRequest: isOfRequests)
        // The process may end at once.
        if event.level == .critical { writer.flush() }
    }

    /// One line with its line feed.
    /// - Parameter milliseconds: Since 1970.
    static func line(
        at milliseconds: Int64, _ level: Logger.Level, _ message: String, source: String,
        _ metadata: Logger.Metadata
    ) -> [UInt8] {
        var line: [UInt8] = []
        line.append("{\"time\":")
        line.append(json: Text(Moment.text(milliseconds)))
        line.append(",\"level\":")
        line.append(json: Text(level.rawValue))
        line.append(",\"message\":")
        line.append(json: Text(message))
        line.append(",\"source\":")
        line.append(json: Text(source))
        for (name, value) in metadata.sorted(by: { $0.key < $1.key }) where !reserved.contains(name) {
            line.append(",")
            line.append(json: Text(name))
            line.append(":")
            if numeric.contains(name), let number = Int64("\(value)") {
                line.append(decimal: number)
            } else {
                line.append(json: Text("\(value)"))
            }
        }
        line.append("}\n")
        return line
    }
}
