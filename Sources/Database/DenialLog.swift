import Logging
import PandoBytes
import PandoEngine
import PandoRules
import PandoStorage
import PandoTree

/// Why requests were denied lately, for operators. Clients get no reasons (rules §2.6).
///
/// The last denials of each database are kept for `/.inspect/denials.json`, and logged at `debug`. Explaining
/// one is far slower than denying it, so only a small part of the time is spent on it; the others are only
/// counted.
struct DenialLog {
    /// Denials kept for a database.
    static let keptCount = 100
    /// Bytes of JSON kept for a database: where denials are long, fewer are kept. So few that an I/O thread
    /// compresses them within some milliseconds.
    static let keptByteLimit = 256 << 10
    /// Bytes of the rules of one denial (``Denial/json(atMost:)``), and of its line in the log.
    private static let denialByteLimit = 8 << 10
    /// Bytes of a uid that are shown: more only where an administrator has chosen it.
    private static let uidByteLimit = Writer.uidByteLimit
    /// The pause after an explanation, as a multiple of its duration: at most two percent of the database
    /// thread's time is spent on them.
    private static let pauseFactor = 50
    /// A pause up to this long may be put off, so that a few denials at once are all explained.
    private static let postponablePause: Duration = .seconds(1)
    /// Log lines at `debug` in one second.
    private static let loggedPerSecond = 10

    /// The latest denials of a database. Each is printed when it is explained, so that showing them takes
    /// little time.
    struct Kept {
        /// As JSON, the oldest first.
        private var entries: [[UInt8]] = []
        /// Bytes of all ``entries``.
        private var byteCount = 0
        /// All denials since the server started, explained or not.
        var count = 0

        /// Adds an explained denial, in place of the oldest ones.
        mutating func add(_ entry: [UInt8]) {
            entries.append(entry)
            byteCount += entry.count
            while entries.count > DenialLog.keptCount || byteCount > DenialLog.keptByteLimit {
                byteCount -= entries.removeFirst().count
            }
        }

        /// `{"count":…,"denials":[{"time":…,"uid":…,"denial":{…}}…]}`, newest first. O(bytes).
        var json: [UInt8] {
            var output: [UInt8] = []
            output.reserveCapacity(byteCount + entries.count + 64)
            output.append("{\"count\":")
            output.append(decimal: Int64(count))
            output.append(",\"denials\":[")
            for (index, entry) in entries.reversed().enumerated() {
                if index > 0 { output.append(UInt8(ascii: ",")) }
                output += entry
            }
            output.append("]}")
            return output
        }
    }

    private let logger: Logger
    /// By the number of the database.
    private var kept: [UInt32: Kept] = [:]
    private var second: Int64 = 0
    private var loggedCount = 0
    private var nextExplanation = ContinuousClock.now

    init(_ logger: Logger) {
        self.logger = logger
    }

    /// Notes that the engine of a database has denied a command. Before anything changes.
    /// - Parameter explains: Whether it may be explained: not where the rules alone took long.
    mutating func note(_ command: Command, in database: StoredDatabase, explains: Bool = true) {
        kept[database.id, default: Kept()].count += 1
        guard explains else { return }
        let start = ContinuousClock.now
        guard nextExplanation - start <= Self.postponablePause,
            let denial = database.engine.explainDenial(of: command)
        else { return }
        let uid = command.credential.uid?.prefix(byteCount: Self.uidByteLimit)
        kept[database.id, default: Kept()].add(Self.json(of: denial, by: uid, at: command.time))
        if logger.logLevel <= .debug { log(denial, by: uid, at: command.time, in: database) }
        nextExplanation = max(start, nextExplanation) + (.now - start) * Self.pauseFactor
    }

    private mutating func log(_ denial: Denial, by uid: Text?, at time: Int64, in database: StoredDatabase) {
        if time / 1000 != second {
            second = time / 1000
            loggedCount = 0
        }
        loggedCount += 1
        guard loggedCount <= Self.loggedPerSecond else { return }
        let who = uid.map(Self.quoted) ?? "null"
        // One line, so that a program can read the log line by line.
        let line = denial.lines.map { $0.drop { $0 == " " } }.joined(separator: "; ")
        let shown = line.prefix(byteCount: Self.denialByteLimit)
        let end = shown.utf8.count < line.utf8.count ? "…" : ""
        logger.debug("\(database.name), uid \(who): \(shown)\(end)")
    }

    /// As JSON, so that no uid can look like another line of the log.
    private static func quoted(_ text: Text) -> String {
        var json: [UInt8] = []
        json.append(json: text)
        return String(decoding: json, as: UTF8.self)
    }

    /// One entry of ``Kept/json``.
    private static func json(of denial: Denial, by uid: Text?, at time: Int64) -> [UInt8] {
        var output: [UInt8] = []
        output.append("{\"time\":")
        output.append(decimal: time)
        output.append(",\"uid\":")
        if let uid { output.append(json: uid) } else { output.append("null") }
        output.append(",\"denial\":")
        output += denial.json(atMost: denialByteLimit)
        output.append("}")
        return output
    }

    /// The latest denials (``Kept/json``). Some ten microseconds.
    func json(of database: StoredDatabase) -> [UInt8] { (kept[database.id] ?? Kept()).json }
}
