import PandoBytes
import PandoEngine
import PandoREST
import PandoTree
import Synchronization

/// The events of one write of many locations, for all event streams of one location (rest §8.2). It is made
/// once, and holds the changes as the push has them: streams have no events of their own, and each event is
/// printed when its client reads it (``StreamUpdatePrinter``).
package final class StreamUpdate: Sendable {
    /// Of what the changes are relative to, below the root of the stream.
    let base: Path
    let entries: [Push.Entry]
    /// The changes of a query window are a `put` for each child, with the removed ones first.
    let isQuery: Bool
    /// What the first stream finds out for all.
    private let known = Mutex<Known?>(nil)

    private struct Known {
        var patchDepth: Int?
        var weight: Int
    }

    /// Locations of one write from which on its events are not made before they are printed.
    static let leastCount = 64
    /// Entries that are weighed; others weigh as much.
    private static let weighedCount = 1024
    /// Bytes that one write counts at most.
    private static let weightLimit = 64 << 20

    package init(_ entries: [Push.Entry], at base: Path, isQuery: Bool) {
        self.base = base
        self.entries = entries
        self.isQuery = isQuery
    }

    /// Its events, at most.
    package var eventCount: Int { entries.count }

    /// About the bytes of memory that it holds, which all of its streams share. O(entries) for the first
    /// stream, O(1) for the others.
    package var weight: Int { found.weight }

    /// The keys that all changes have in common, where they are one `patch`; nil where each is a `put`.
    var patchDepth: Int? { found.patchDepth }

    private var found: Known {
        known.withLock { known in
            if let known { return known }
            let found = Known(
                patchDepth: isQuery ? nil : StreamEvent.patchDepth(of: entries.lazy.map(\.path)),
                weight: weigh())
            known = found
            return found
        }
    }

    private func weigh() -> Int {
        let weighed = entries.prefix(Self.weighedCount)
        let byteCount = weighed.reduce(0) { sum, entry in
            sum + 64 + 16 * entry.path.count
                + entry.node.weight(upTo: Self.weightLimit / max(1, weighed.count))
        }
        return min(Self.weightLimit, byteCount / max(1, weighed.count) * entries.count)
    }

    /// All of its events, in order. O(entries): for tests and simulations.
    package var events: [StreamEvent] {
        StreamEvent.events(merging: entries.map { ($0.path, $0.node) }, at: base, isQuery: isQuery)
    }
}

/// Prints the events of a ``StreamUpdate`` for one stream, a piece at a time.
package struct StreamUpdatePrinter: Sendable {
    package let update: StreamUpdate
    private let form: JSONForm
    private let patchDepth: Int?
    /// Of the entry that is printed next. The entries of a query are visited twice: those that are removed,
    /// then the others.
    private var index = 0
    private var isSecondVisit: Bool
    /// Of an entry that is no small value.
    private var printer: ValuePrinter?

    package init(_ update: StreamUpdate, _ form: JSONForm) {
        self.update = update
        self.form = form
        patchDepth = update.patchDepth
        isSecondVisit = !update.isQuery
    }

    /// Events that are left, at most.
    package var remainingCount: Int { isSecondVisit ? update.entries.count - index : update.entries.count }

    /// The next bytes; nil when everything was printed.
    /// - Returns: Never empty. About ``RESTLimits/pieceByteCount`` bytes, and less in the last piece.
    package mutating func next() -> [UInt8]? {
        var bytes: [UInt8] = []
        while bytes.count < RESTLimits.pieceByteCount {
            if let piece = printer?.next() {
                bytes += piece
                continue
            }
            printer = nil
            guard let entry = takeEntry() else { break }
            let start = index - 1
            let isLast = start == update.entries.count - 1
            if let patchDepth {
                if start == 0 {
                    bytes += StreamEvent.start(
                        "patch", at: update.base.appending(entry.path.keys[..<patchDepth]))
                }
                bytes.append(start == 0 ? UInt8(ascii: "{") : UInt8(ascii: ","))
                bytes.append(jsonName: entry.path[patchDepth])
                bytes.append(UInt8(ascii: ":"))
                print(entry.node, suffix: isLast ? "}}\n\n" : "", to: &bytes)
            } else {
                bytes += StreamEvent.start("put", at: update.base.appending(entry.path.keys))
                print(entry.node, suffix: "}\n\n", to: &bytes)
            }
        }
        return bytes.isEmpty ? nil : bytes
    }

    private mutating func takeEntry() -> Push.Entry? {
        let entries = update.entries
        while true {
            if index == entries.count {
                guard !isSecondVisit else { return nil }
                (index, isSecondVisit) = (0, true)
            }
            let entry = entries[index]
            index += 1
            if !update.isQuery || entry.node.isEmpty != isSecondVisit { return entry }
        }
    }

    /// Prints a small value at once, and begins to print another.
    private mutating func print(_ node: Node, suffix: StaticString, to bytes: inout [UInt8]) {
        switch node {
        case .empty, .boolean, .integer, .double:
            bytes.append(json: node)
            bytes.append(suffix)
        case .string, .object, .prioritized:
            var form = form
            form.isPretty = false
            form.isShallow = false
            var end: [UInt8] = []
            end.append(suffix)
            printer = ValuePrinter(.node(node), form, suffix: end)
        }
    }
}
