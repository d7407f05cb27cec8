import PandoRules
import PandoTree

/// The server values of a write that has many, resolved on a snapshot (§10): each takes about a microsecond.
/// They hold while the numbers that increments add to are the same.
struct PreparedValues: Sendable {
    /// The writes with these values.
    let writes: [Write]
    /// Where increments have found their numbers.
    let reads: ReadLocations
    /// The data as the journal stores it.
    let printed: PrintedNodes
    /// The value as it was sent, of a single write whose client may not be allowed to read what it has
    /// written; nil for others.
    let sent: Node?

    /// Fewer are resolved when the write is executed.
    private static let leastCount = 1024

    /// Whether the writes have so many. O(writes).
    static func areNeeded(for writes: [Write]) -> Bool {
        var left = leastCount
        return writes.contains { write in
            left -= write.draft.placeholders.count
            return left < 0
        }
    }

    /// - Parameter keepsSent: Whether ``sent`` may be needed.
    /// - Returns: Nil where there are few.
    /// - Complexity: O(server values × depth × log n + size of the data).
    init?(_ writes: [Write], in root: Node, at time: Int64, keepsSent: Bool) {
        guard Self.areNeeded(for: writes) else { return nil }
        var reads = ReadLocations()
        reads.insertNumbers(ofIncrementsIn: writes)
        self.reads = reads
        self.writes = writes.map { write in
            if write.draft.placeholders.isEmpty { return write }
            return Write(
                write.target, Draft(root.resolving(write, at: time).node, depth: write.draft.depth))
        }
        sent = keepsSent && writes.count == 1 ? writes[0].draft.unresolved : nil
        printed = PrintedNodes(self.writes.map(\.draft.node))
    }

    /// The data at a location that one of the writes replaces; nil for any other.
    func node(at path: Path) -> Node? {
        writes.first { !$0.target.isPriority && $0.target.path.contains(path) }.map {
            $0.draft.node[$0.target.path.relative(path)]
        }
    }
}

extension ReadLocations {
    /// Notes where increments in these writes find the numbers that they add to. O(server values × depth).
    mutating func insertNumbers(ofIncrementsIn writes: [Write]) {
        for write in writes {
            for placeholder in write.draft.placeholders {
                guard case .increment = placeholder.value else { continue }
                insert((write.target.path.keys + placeholder.target.path.keys)[...])
            }
        }
    }
}
