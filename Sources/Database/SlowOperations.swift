import PandoBytes
import PandoTime
import PandoTree
import Synchronization

/// The slowest operations of the last hour: what was asked for, where, and how long the databases were busy
/// with it, or another thread that evaluated a query over a snapshot. Bounded: it keeps the slowest operation
/// of each kind, path pattern and order of a query, ``limit`` of them.
///
/// Only operations that take ``threshold`` or longer get here, so the lock is taken seldom. Any thread may
/// use it.
package final class SlowOperations: Sendable {
    package struct Entry: Equatable, Sendable {
        package var kind: RequestKind
        package var database: String
        /// As ``pattern(of:)`` makes it.
        package var pattern: String
        /// The location of the slowest one; nil for one that is longer than ``nameByteLimit``.
        package var location: String?
        /// What the query is ordered by; nil for an operation without a query.
        package var order: Order?
        /// Whether another thread did it, on a snapshot: then no other client waited for it.
        package var isElsewhere = false
        /// Of the slowest one.
        package var nanoseconds: UInt64
        /// Of all that were slow since the first that is remembered.
        package fileprivate(set) var totalNanoseconds: UInt64 = 0
        /// When the slowest one was: milliseconds since 1970.
        package var milliseconds: Int64
        /// How many were slow since the first that is remembered.
        package var count = 1
        /// Requests that were processed in the measured time: 1, or some small ones together.
        package var requestCount: Int
    }

    /// The order of a query.
    package struct Order: Equatable, Sendable {
        /// In the words of REST's `orderBy`: `age`, `$value`, `$key`; nil for one that is longer than
        /// ``nameByteLimit``.
        package var name: String?
        /// Whether the rules declare its index, or it needs none.
        package var isIndexed: Bool

        /// The line that declares the index in the rules; nil where there is nothing to declare.
        package var missingDeclaration: String? {
            guard !isIndexed, let name else { return nil }
            return "\".indexOn\": \"\(name == "$value" ? ".value" : name)\""
        }

        package init(name: String?, isIndexed: Bool) {
            self.name = name.flatMap { $0.utf8.count <= SlowOperations.nameByteLimit ? $0 : nil }
            self.isIndexed = isIndexed
        }
    }

    /// Operations that are kept; beyond it the fastest is forgotten.
    package static let limit = 128
    /// From this on an operation is slow: other clients wait for as long. Nanoseconds.
    package static let standardThreshold: UInt64 = 1_000_000
    /// ``standardThreshold``, except in tests.
    let threshold: UInt64
    private static let keptMilliseconds: Int64 = 3_600_000
    /// Bytes of a pattern, and of a location or the name of an order.
    package static let nameByteLimit = 256

    private let entries = Mutex<[Entry]>([])

    init(threshold: UInt64 = standardThreshold) {
        self.threshold = threshold
    }

    func note(_ entry: Entry) {
        var entry = entry
        entry.totalNanoseconds = entry.nanoseconds
        entries.withLock { entries in
            entries.removeAll { $0.milliseconds < entry.milliseconds - Self.keptMilliseconds }
            let same = entries.firstIndex {
                $0.kind == entry.kind && $0.database == entry.database && $0.pattern == entry.pattern
                    && $0.order == entry.order && $0.isElsewhere == entry.isElsewhere
            }
            if let same {
                let count = entries[same].count &+ 1
                let total = entries[same].totalNanoseconds &+ entry.nanoseconds
                if entry.nanoseconds >= entries[same].nanoseconds { entries[same] = entry }
                entries[same].count = count
                entries[same].totalNanoseconds = total
                return
            }
            entries.append(entry)
            guard entries.count > Self.limit,
                let fastest = entries.indices.min(by: { entries[$0].nanoseconds < entries[$1].nanoseconds })
            else { return }
            entries.remove(at: fastest)
        }
    }

    /// The slowest first.
    /// - Parameter now: Milliseconds since 1970.
    package func slowestFirst(at now: Int64) -> [Entry] {
        entries.withLock { $0 }
            .filter { $0.milliseconds >= now - Self.keptMilliseconds }
            .sorted { $0.nanoseconds > $1.nanoseconds }
    }

    /// The path with a `*` for each key that looks like the name of one thing among many: push ids, numbers,
    /// and what has digits and is long.
    package static func pattern(of path: Path) -> String {
        var text = ""
        for key in path.keys {
            text += "/"
            text += fixedName(of: key) ?? "*"
            if text.utf8.count > nameByteLimit { return text.prefix(byteCount: nameByteLimit) + "…" }
        }
        return text.isEmpty ? "/" : text
    }

    /// The path as text; nil for one that is longer than ``nameByteLimit``.
    package static func location(of path: Path) -> String? {
        let byteCount = path.keys.reduce(0) { $0 + $1.utf8Count + 1 }
        return byteCount <= nameByteLimit ? "/" + path.wireText : nil
    }

    /// Bytes of a key from which on it is the name of one thing among many.
    private static let variableByteCount = 20

    /// The text of a key; nil where it looks like the name of one thing among many.
    /// - Complexity: O(1), since a long key is such a name.
    private static func fixedName(of key: Key) -> String? {
        guard key.utf8Count < variableByteCount else { return nil }
        let name = key.string
        let digits = name.utf8.count { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
        let length = name.utf8.count
        if digits == length { return nil }
        // `v1` is a name, `a1b2` is one of many.
        return digits > 0 && (length >= 12 || length > 2 && digits * 2 >= length) ? nil : name
    }
}
