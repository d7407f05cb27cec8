import PandoBytes
import PandoEngine
import PandoREST
import PandoTree
import Synchronization

/// What one push of many locations sends to all event streams of one location (rest §8.2). It is made once,
/// in O(1), and holds the push's own entries. The events are not stored: ``StreamUpdatePrinter`` prints them
/// for each stream when its client reads them. Of pushes with fewer entries than ``leastCount``, the
/// ``StreamEvent``s are made instead.
package final class StreamUpdate: Sendable {
    /// The location, relative to the root of the stream, to which the paths of ``entries`` are relative.
    let base: Path
    let entries: [Push.Entry]
    /// The changes of a query window are a `put` for each child, with the removed ones first.
    let isQuery: Bool
    /// Computed by the first stream that asks; the others use it.
    private let summary = Mutex<Summary?>(nil)

    private struct Summary {
        var patchDepth: Int?
        var weight: Int
    }

    /// The least number of entries of a push for which this is made.
    static let leastCount = 64
    /// At most so many entries are weighed; each further one counts as their average.
    private static let weighedCount = 1024
    /// Bytes of them that are visited, about: a fraction of a millisecond.
    private static let weighedByteCount = 256 << 10
    /// The most that ``weight`` can be: 64 MiB.
    private static let weightLimit = 64 << 20

    package init(_ entries: [Push.Entry], at base: Path, isQuery: Bool) {
        self.base = base
        self.entries = entries
        self.isQuery = isQuery
    }

    /// How many events it is printed as.
    package var eventCount: Int { patchDepth == nil ? entries.count : 1 }

    /// About the bytes of its keys and values as JSON, at most 64 MiB; all of its streams share them.
    /// O(entries × depth) the first time, then O(1).
    package var weight: Int { summarized.weight }

    /// The keys that all changes have in common, where they are one `patch`; nil where each is a `put`.
    var patchDepth: Int? { summarized.patchDepth }

    private var summarized: Summary {
        summary.withLock { summary in
            if let summary { return summary }
            let made = Summary(
                patchDepth: isQuery ? nil : StreamEvent.patchDepth(of: entries.lazy.map(\.path)),
                weight: weigh())
            summary = made
            return made
        }
    }

    private func weigh() -> Int {
        var (count, byteCount, left) = (0, 0, Self.weighedByteCount)
        for entry in entries.prefix(Self.weighedCount) where left > 0 {
            let weight = entry.node.weight(upTo: left)
            byteCount += 64 + 16 * entry.path.count + weight
            left -= weight
            count += 1
        }
        return min(Self.weightLimit, byteCount / max(1, count) * entries.count)
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
    /// The index of the entry that is printed next. The entries of a query are visited twice: those that are
    /// removed, then the others.
    private var index = 0
    private var isSecondVisit: Bool
    /// Prints the value of the current entry; nil where that is small and already printed.
    private var printer: ValuePrinter?

    package init(_ update: StreamUpdate, _ form: JSONForm) {
        self.update = update
        self.form = form
        patchDepth = update.patchDepth
        isSecondVisit = !update.isQuery
    }

    /// Bytes of memory that is printed and not returned, about.
    package var heldByteCount: Int { printer?.heldByteCount ?? 0 }

    /// Events that are left, at most.
    package var remainingCount: Int { isSecondVisit ? update.entries.count - index : update.entries.count }

    /// The next bytes; nil when everything was printed.
    /// - Returns: About ``RESTLimits/pieceByteCount`` bytes, and less in the last piece. May be empty, as
    ///   ``ValuePrinter/next(atMost:)``.
    package mutating func next() -> [UInt8]? {
        var bytes: [UInt8] = []
        while bytes.count < RESTLimits.pieceByteCount {
            if let piece = printer?.next() {
                bytes += piece
                if piece.isEmpty { return bytes }
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
