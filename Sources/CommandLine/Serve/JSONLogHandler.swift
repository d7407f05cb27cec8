import Glibc
import Logging
import PandoBytes
import PandoTree

/// Writes log messages to standard error as JSON, one object in each line:
///
///     {"time":"2026-11-21T18:30:00.123Z","level":"info","message":"…","source":"PandoServer"}
///
/// Metadata are further members. A line is one `write(2)`, so lines of several threads are not mixed.
struct JSONLogHandler: LogHandler {
    var logLevel = Logger.Level.info
    var metadata: Logger.Metadata = [:]

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
        unsafe line.withUnsafeBytes { bytes in
            var start = 0
            while start < bytes.count {
                let count = unsafe write(
                    STDERR_FILENO, bytes.baseAddress?.advanced(by: start), bytes.count - start)
                // A log that cannot be written is no reason to stop the server.
                if count <= 0, errno != EINTR { return }
                start += max(0, count)
            }
        }
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
            line.append(metadata: value)
        }
        line.append("}\n")
        return line
    }
}

extension [UInt8] {
    /// Appends a number as a number, and anything else as a text.
    fileprivate mutating func append(metadata value: Logger.Metadata.Value) {
        let text = "\(value)"
        if let number = Int64(text), String(number) == text {
            append(decimal: number)
        } else {
            append(json: Text(text))
        }
    }
}
