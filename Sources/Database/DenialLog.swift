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
    /// The pause after an explanation, as a multiple of its duration: at most two percent of the database
    /// thread's time is spent on them.
    private static let pauseFactor = 50
    /// A pause up to this long may be put off, so that a few denials at once are all explained.
    private static let postponablePause: Duration = .seconds(1)
    /// Log lines at `debug` in one second.
    private static let loggedPerSecond = 10

    struct Entry {
        var milliseconds: Int64
        /// `auth.uid` of the request.
        var uid: Text?
        var denial: Denial
    }

    private struct Kept {
        /// A ring: the oldest is at `next` once it is full.
        var entries: [Entry] = []
        var next = 0
        /// All denials since the server started, explained or not.
        var count = 0

        mutating func add(_ entry: Entry) {
            guard entries.count == DenialLog.keptCount else { return entries.append(entry) }
            entries[next] = entry
            next = (next + 1) % DenialLog.keptCount
        }

        /// Newest first.
        var newestFirst: [Entry] { Array((entries[next...] + entries[..<next]).reversed()) }
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
        nextExplanation = max(start, nextExplanation) + (.now - start) * Self.pauseFactor
        let uid = command.credential.uid
        kept[database.id, default: Kept()].add(Entry(milliseconds: command.time, uid: uid, denial: denial))
        guard logger.logLevel <= .debug else { return }
        if command.time / 1000 != second {
            second = command.time / 1000
            loggedCount = 0
        }
        loggedCount += 1
        if loggedCount <= Self.loggedPerSecond {
            let who = uid.map(Self.quoted) ?? "null"
            // One line, so that a program can read the log line by line.
            let lines = denial.lines.map { $0.drop { $0 == " " } }
            logger.debug("\(database.name), uid \(who): \(lines.joined(separator: "; "))")
        }
    }

    /// As JSON, so that no uid can look like another line of the log.
    private static func quoted(_ text: Text) -> String {
        var json: [UInt8] = []
        json.append(json: text)
        return String(decoding: json, as: UTF8.self)
    }

    /// `{"count":…,"denials":[{"time":…,"uid":…,"denial":{…}}…]}`, newest first.
    func json(of database: StoredDatabase) -> [UInt8] {
        let kept = kept[database.id] ?? Kept()
        var output: [UInt8] = []
        output.append("{\"count\":")
        output.append(decimal: Int64(kept.count))
        output.append(",\"denials\":[")
        for (index, entry) in kept.newestFirst.enumerated() {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            output.append("{\"time\":")
            output.append(decimal: entry.milliseconds)
            output.append(",\"uid\":")
            if let uid = entry.uid { output.append(json: uid) } else { output.append("null") }
            output.append(",\"denial\":")
            output += entry.denial.json
            output.append("}")
        }
        output.append("]}")
        return output
    }
}
