import Logging
import PandoBytes
import PandoStorage
import PandoTree
import Synchronization

/// The latest messages of the log, for administrators (rest §10.3). Bounded: it keeps ``messageLimit``
/// messages of at most ``byteLimit`` bytes each. Any thread may use it; a message that is logged takes a lock
/// and a copy of its text beside the write to standard error.
package final class LogTail: Sendable {
    /// One message.
    struct Message: Equatable, Sendable {
        /// 1 for the first since the start.
        var number: UInt64
        /// Milliseconds since 1970.
        var time: Int64
        var level: Logger.Level
        /// With the metadata behind it, as `name=value`.
        var text: String
    }

    /// Messages that are kept: some screens of them.
    static let messageLimit = 500
    /// Bytes of a message; more of it are cut off.
    static let byteLimit = 2048

    private struct State {
        /// The message with the number n is at n - 1 modulo ``messageLimit``.
        var messages: [Message] = []
        var lastNumber: UInt64 = 0
    }

    private let state = Mutex(State())

    package init() {}

    /// A logger that logs as another one does, and whose messages are kept here.
    package func following(_ logger: Logger) -> Logger {
        var logger = logger
        logger.handler = LogTailHandler(next: logger.handler, tail: self)
        return logger
    }

    /// Keeps a message in place of the oldest one.
    func note(_ level: Logger.Level, _ text: String, at time: Int64) {
        let kept =
            text.utf8.count > Self.byteLimit ? text.prefix(byteCount: Self.byteLimit) + "…" : text
        state.withLock { state in
            let place = Int(state.lastNumber % UInt64(Self.messageLimit))
            state.lastNumber += 1
            let message = Message(number: state.lastNumber, time: time, level: level, text: kept)
            if place == state.messages.count {
                state.messages.append(message)
            } else {
                state.messages[place] = message
            }
        }
    }

    /// The messages behind the one with a number, oldest first. O(``messageLimit``).
    func messages(after number: UInt64) -> [Message] {
        state.withLock { $0.messages }.filter { $0.number > number }.sorted { $0.number < $1.number }
    }

    /// The same as JSON: `{"messages":[{"number":…,"time":…,"level":"info","text":"…"},…]}`.
    func json(after number: UInt64) -> [UInt8] {
        var json: [UInt8] = []
        json.append("{\"messages\":[")
        for (index, message) in messages(after: number).enumerated() {
            json.append(index > 0 ? ",{\"number\":" : "{\"number\":")
            json.append(decimal: message.number)
            json.append(",\"time\":")
            json.append(decimal: message.time)
            json.append(",\"level\":")
            json.append(json: Text(message.level.rawValue))
            json.append(",\"text\":")
            json.append(json: Text(message.text))
            json.append("}")
        }
        json.append("]}")
        return json
    }
}

/// Gives messages to another handler, and keeps them in a ``LogTail``.
private struct LogTailHandler: LogHandler {
    var next: any LogHandler
    let tail: LogTail

    var logLevel: Logger.Level {
        get { next.logLevel }
        set { next.logLevel = newValue }
    }

    var metadata: Logger.Metadata {
        get { next.metadata }
        set { next.metadata = newValue }
    }

    var metadataProvider: Logger.MetadataProvider? {
        get { next.metadataProvider }
        set { next.metadataProvider = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { next[metadataKey: key] }
        set { next[metadataKey: key] = newValue }
    }

    func log(event: LogEvent) {
        next.log(event: event)
        var text = "\(event.message)"
        for (name, value) in (event.metadata ?? [:]).sorted(by: { $0.key < $1.key }) {
            text += " \(name)=\(value)"
        }
        tail.note(event.level, text, at: wallTime())
    }
}
