import PandoBytes
import PandoTree

// Finds the data of one location in a part of a tree (TreeRecord.swift), and skips the rest.

/// What a part of a tree holds of one location.
enum SubtreePart {
    case unrelated
    /// More than the limit.
    case tooLarge
    /// All of the location's data.
    case whole(Node)
    /// Something at the location or below, and its bytes.
    case part(TreePart, byteCount: Int)
}

extension ByteCursor {
    /// Reads what the record holds of `path`.
    /// - Throws: For a record that cannot be read.
    mutating func readPart(of path: Path, byteLimit: Int) throws(UnreadableRecord) -> SubtreePart {
        let place = try readPath()
        guard place.count <= Limits.pathDepth, !place.namesPriority else {
            throw UnreadableRecord(reason: "no path before byte \(offset): \(place)")
        }
        if path.contains(place) {
            guard remaining <= byteLimit else { return .tooLarge }
            let byteCount = remaining
            let part = try readPart(at: place)
            guard isAtEnd else { throw UnreadableRecord(reason: "bytes are left over") }
            return .part(part, byteCount: byteCount)
        }
        guard place.contains(path) else { return .unrelated }
        let keys = path.keys[place.count...]
        switch PartKind(rawValue: try readByte()) {
        case .node:
            return try enter(keys) ? readWhole(depth: path.count, byteLimit: byteLimit) : .unrelated
        case .children:
            guard let key = keys.first, try findChild(key, count: nil) else { return .unrelated }
            return try enter(keys.dropFirst())
                ? readWhole(depth: path.count, byteLimit: byteLimit) : .unrelated
        case .priority: return .unrelated
        case nil: throw UnreadableRecord(reason: "unknown part at byte \(offset)")
        }
    }

    private mutating func readWhole(depth: Int, byteLimit: Int) throws(UnreadableRecord) -> SubtreePart {
        var ahead = self
        try ahead.skipNode()
        guard ahead.offset - offset <= byteLimit else { return .tooLarge }
        return .whole(try readNode(depth: depth))
    }

    /// Moves to the node at `keys` below the node here.
    /// - Returns: false where there is none.
    private mutating func enter(_ keys: ArraySlice<Key>) throws(UnreadableRecord) -> Bool {
        for key in keys {
            var tag = try readByte()
            if tag == NodeTag.priority {
                try skipNode()
                tag = try readByte()
            }
            guard tag == NodeTag.object else { return false }
            guard let count = try? readVarint() else { throw ended() }
            guard try findChild(key, count: count) else { return false }
        }
        return true
    }

    /// Moves to the node of a child.
    /// - Parameter count: How many children there are; nil for all to the end.
    private mutating func findChild(_ key: Key, count: UInt64?) throws(UnreadableRecord) -> Bool {
        var left = count ?? .max
        while left > 0, count != nil || !isAtEnd {
            left -= 1
            guard let range = try? readCounted(), let found = legalKey(range) else {
                throw UnreadableRecord(reason: "no key before byte \(offset)")
            }
            if found == key { return true }
            // In key order.
            if found > key { return false }
            try skipNode()
        }
        return false
    }

    /// Moves past a node. A loop, not recursion: children and priorities are only counted.
    private mutating func skipNode() throws(UnreadableRecord) {
        /// Children that are left of each object around the current node.
        var open: [UInt64] = []
        var isValueExpected = true
        while isValueExpected || !open.isEmpty {
            if !isValueExpected {
                guard open[open.count - 1] > 0 else {
                    open.removeLast()
                    continue
                }
                open[open.count - 1] -= 1
                guard (try? readCounted()) != nil else { throw ended() }
            }
            isValueExpected = false
            switch try readByte() {
            case NodeTag.no, NodeTag.yes: break
            case NodeTag.integer: guard (try? readVarint()) != nil else { throw ended() }
            case NodeTag.double: _ = try readInteger()
            case NodeTag.text: guard (try? readCounted()) != nil else { throw ended() }
            case NodeTag.object:
                guard open.count <= Limits.pathDepth, let count = try? readVarint(),
                    count <= UInt64(remaining)
                else {
                    throw ended()
                }
                open.append(count)
            // The priority is a leaf; the node with this priority is the next one.
            case NodeTag.priority:
                try skipLeaf()
                isValueExpected = true
            case let tag: throw UnreadableRecord(reason: "unknown node \(tag) before byte \(offset)")
            }
        }
    }

    private mutating func skipLeaf() throws(UnreadableRecord) {
        switch try readByte() {
        case NodeTag.no, NodeTag.yes: break
        case NodeTag.integer: guard (try? readVarint()) != nil else { throw ended() }
        case NodeTag.double: _ = try readInteger()
        case NodeTag.text: guard (try? readCounted()) != nil else { throw ended() }
        default: throw UnreadableRecord(reason: "no priority before byte \(offset)")
        }
    }
}
