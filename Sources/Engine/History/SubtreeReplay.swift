import PandoBytes
import PandoTree

/// Builds the value of one location from the records of a checkpoint and of the journal, as
/// ``Engine/replay(_:_:)`` would build the whole tree. Data beside the location is skipped, and never becomes
/// nodes.
///
/// Not larger than a limit: beyond it the value is forgotten until a record replaces all of it.
package struct SubtreeReplay: Sendable {
    package let path: Path
    private let byteLimit: Int
    private var node = Node.empty
    /// The value has exceeded the limit, and was not replaced since.
    private var isTooLarge = false
    /// Bytes that records have added since the value was weighed. Invariant: the value prints to at most
    /// about twice ``byteLimit``.
    private var addedByteCount = 0

    /// - Parameter byteLimit: Bytes of JSON, about, that the value may have.
    package init(at path: Path, byteLimit: Int) {
        self.path = path
        self.byteLimit = byteLimit
    }

    /// The value after all records; nil where it exceeds the limit. O(limit).
    package var value: Node? { isTooLarge || node.isHeavier(than: byteLimit) ? nil : node }

    /// Forgets all records.
    package mutating func startOver() { self = SubtreeReplay(at: path, byteLimit: byteLimit) }

    /// Applies a record.
    /// - Throws: For a payload that cannot be read.
    /// - Complexity: O(bytes of the record).
    package mutating func replay(_ kind: EngineRecord.Kind, _ payload: RawSpan) throws(UnreadableRecord) {
        switch kind {
        case .delta, .authoredDelta:
            try EngineRecord.read(payload) { cursor throws(UnreadableRecord) in
                if kind == .authoredDelta { _ = try cursor.readAuthorship() }
                try cursor.forEachChangedLocation { (cursor, path, json) throws(UnreadableRecord) in
                    try apply(path, json, cursor)
                }
            }
        case .tree: try addPart(payload)
        case .onDisconnectRegistered, .onDisconnectCancelled: break
        }
    }

    // MARK: Changes

    private mutating func apply(
        _ changed: Path, _ json: Range<Int>, _ cursor: borrowing ByteCursor
    ) throws(UnreadableRecord) {
        if changed.namesPriority {
            let owner = changed.parent
            guard !isTooLarge, path.contains(owner) else { return }
            node.set(priority: Priority(try cursor.node(json)), at: path.relative(owner))
        } else if path.contains(changed) {
            let relative = path.relative(changed)
            if isTooLarge, !relative.isRoot { return }
            guard json.count <= byteLimit else { return forget() }
            if relative.isRoot { return replace(try cursor.node(json), json.count) }
            node.set(try cursor.node(json), at: relative)
            note(json.count)
        } else if changed.contains(path) {
            guard let part = try cursor.range(of: path.keys[changed.count...], in: json) else {
                return replace(.empty, 0)
            }
            guard part.count <= byteLimit else { return forget() }
            replace(try cursor.node(part), part.count)
        }
    }

    private mutating func replace(_ new: Node, _ byteCount: Int) {
        isTooLarge = false
        node = new
        addedByteCount = byteCount
    }

    private mutating func forget() {
        node = .empty
        isTooLarge = true
    }

    private mutating func note(_ byteCount: Int) {
        addedByteCount += byteCount
        guard addedByteCount > byteLimit else { return }
        if node.isHeavier(than: byteLimit) { return forget() }
        // Weighed again when that much was added once more: O(1) for each byte of the journal.
        addedByteCount = 0
    }

    // MARK: Parts of a checkpoint's tree

    private mutating func addPart(_ payload: RawSpan) throws(UnreadableRecord) {
        let part = try withCursor(over: payload) { (cursor) throws(UnreadableRecord) in
            try cursor.readPart(of: path, byteLimit: byteLimit)
        }
        switch part {
        case .unrelated: break
        case .tooLarge: forget()
        case .whole(let whole): replace(whole, 0)
        case .part(.children(let path, var entries), let byteCount):
            guard !isTooLarge else { return }
            guard node.append(&entries, at: self.path.relative(path)) else {
                throw UnreadableRecord(reason: "children out of order at \(path)")
            }
            note(byteCount)
        case .part(.node(let path, let leaf), let byteCount):
            guard !isTooLarge else { return }
            node.set(leaf, at: self.path.relative(path))
            note(byteCount)
        case .part(.priority(let path, let priority), _):
            guard !isTooLarge else { return }
            node.set(priority: priority, at: self.path.relative(path))
        }
    }
}

extension ByteCursor {
    /// The bytes of the value at `keys` below the JSON of a record, which is in export form: no arrays, each
    /// name once.
    /// - Returns: Nil where there is no data.
    fileprivate func range(
        of keys: ArraySlice<Key>, in json: Range<Int>
    ) throws(UnreadableRecord) -> Range<Int>? {
        var start = self
        start.offset = json.lowerBound
        var reader = JSONReader(start)
        let part: Range<Int>?
        do throws(MalformedJSON) { part = try reader.range(of: keys) } catch {
            throw UnreadableRecord(reason: "no data at byte \(json.lowerBound): \(error)")
        }
        guard let part else { return nil }
        guard part.upperBound <= json.upperBound else {
            throw UnreadableRecord(reason: "no data at byte \(json.lowerBound)")
        }
        return part
    }
}

extension JSONReader {
    /// Moves into the objects around the value at `keys`, and past it. O(bytes before it).
    /// - Returns: The bytes of the value; nil where there is no data.
    fileprivate mutating func range(of keys: ArraySlice<Key>) throws(MalformedJSON) -> Range<Int>? {
        var keys = keys
        while let key = keys.popFirst() {
            // A leaf has no children. Nor has one with a priority: `.value` is no key.
            guard consume(UInt8(ascii: "{")) else { return nil }
            guard try findMember(key) else { return nil }
        }
        return try skipValue()
    }

    /// After the brace of an object: moves past the colon of a member.
    private mutating func findMember(_ key: Key) throws(MalformedJSON) -> Bool {
        guard !consume(UInt8(ascii: "}")) else { return false }
        repeat {
            let name = try readString()
            try expect(UInt8(ascii: ":"))
            if key.isSpelled(name) { return true }
            _ = try skipValue()
        } while consume(UInt8(ascii: ","))
        return false
    }
}
