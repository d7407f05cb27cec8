import PandoTime

/// What the requests to one path pattern have cost lately. Rates are for each second, over about the last
/// minute.
package struct PathUsage: Equatable, Sendable {
    package var database: String
    /// As ``SlowOperations/pattern(of:)`` makes it.
    package var pattern: String
    package var reads = 0.0
    package var writes = 0.0
    /// Listens and event streams that began.
    package var listens = 0.0
    /// Queries over an order that the rules do not declare.
    package var unindexedQueries = 0.0
    /// Bytes of the requests.
    package var receivedBytes = 0.0
    /// Bytes of replies and pushes, counted once for each recipient; of a read of much data an estimate by
    /// its first children.
    package var sentBytes = 0.0
    /// Seconds that the databases were busy.
    package var busySeconds = 0.0
    /// How much of ``busySeconds`` may belong to patterns that were forgotten for this one.
    package var busySecondsError = 0.0
    /// Listens that exist now, about.
    package var listeners = 0

    package init(database: String, pattern: String) {
        self.database = database
        self.pattern = pattern
    }

    /// Applies `body` to each number that fades.
    fileprivate mutating func forEachRate(_ body: (inout Double) -> Void) {
        body(&reads)
        body(&writes)
        body(&listens)
        body(&unindexedQueries)
        body(&receivedBytes)
        body(&sentBytes)
        body(&busySeconds)
        body(&busySecondsError)
    }
}

/// The path patterns that cost most, in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi, ICDT
/// 2005) by the time that the databases are busy, with numbers that fade by half in a minute.
///
/// A pattern that takes more than 1 in ``limit`` of all time is always in it. A new pattern replaces the one
/// that costs least, and inherits its time as an error.
struct UsageTable {
    /// Patterns that are kept.
    static let limit = 256
    /// Seconds in which numbers fade by half.
    private static let halfLife = 60.0
    /// The time between two fadings.
    private static let fadingInterval: Duration = .seconds(10)
    /// Seconds of work below which a pattern is forgotten.
    private static let forgottenSeconds = 1e-9

    private struct Key: Hashable {
        var database: String
        var pattern: String
    }

    private var entries: [Key: PathUsage] = [:]
    private let began: MonotonicTime
    private var lastFading: MonotonicTime

    init(at now: MonotonicTime) {
        began = now
        lastFading = now
    }

    var count: Int { entries.count }

    /// Adds to a pattern. O(1), or O(``limit``) for a new one.
    mutating func add(
        _ pattern: String, of database: String, at now: MonotonicTime, _ change: (inout PathUsage) -> Void
    ) {
        if now - lastFading >= Self.fadingInterval { fade(at: now) }
        let key = Key(database: database, pattern: pattern)
        if entries[key] == nil {
            var entry = PathUsage(database: database, pattern: pattern)
            if entries.count >= Self.limit,
                let cheapest = entries.min(by: { $0.value.busySeconds < $1.value.busySeconds })
            {
                entries[cheapest.key] = nil
                entry.busySeconds = cheapest.value.busySeconds
                entry.busySecondsError = cheapest.value.busySeconds
            }
            entries[key] = entry
        }
        if var entry = entries.removeValue(forKey: key) {
            change(&entry)
            entries[key] = entry
        }
    }

    /// The patterns, those that cost most first. Numbers are rates.
    mutating func rates(at now: MonotonicTime) -> [PathUsage] {
        fade(at: now)
        // What a constant rate of 1 adds up to since the beginning.
        let age = (now - began) / .seconds(1)
        let mean = Self.halfLife / 0.693147180559945
        let window = max(1, mean * (1 - Self.half(age)))
        return entries.values.map { entry in
            var entry = entry
            entry.forEachRate { $0 /= window }
            return entry
        }.sorted { ($1.busySeconds, $0.pattern, $0.database) < ($0.busySeconds, $1.pattern, $1.database) }
    }

    private mutating func fade(at now: MonotonicTime) {
        let factor = Self.half((now - lastFading) / .seconds(1))
        lastFading = max(lastFading, now)
        for key in entries.keys {
            entries[key]?.forEachRate { $0 *= factor }
            if entries[key]?.busySeconds ?? 0 < Self.forgottenSeconds { entries[key] = nil }
        }
    }

    /// What is left of 1 after so many seconds.
    private static func half(_ seconds: Double) -> Double {
        // Without a library: 2^-x of the whole half-lives, and a fraction below one.
        let halves = max(0, seconds) / halfLife
        let whole = halves.rounded(.down)
        guard whole < 64 else { return 0 }
        let x = (halves - whole) * 0.693147180559945
        // e^-x for 0 ≤ x < ln 2 by its series: the error of nine terms is below 1e-8.
        var (sum, term) = (1.0, 1.0)
        for n in 1...9 {
            term *= -x / Double(n)
            sum += term
        }
        return sum / Double(UInt64(1) << UInt64(whole))
    }
}
