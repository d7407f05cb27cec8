import PandoBytes
import PandoRules
import PandoTree

// Reads the payloads that ``EngineRecord`` describes.

extension EngineRecord {
    /// The changes of a delta record of a former version.
    /// - Throws: For a payload that cannot be read.
    package static func changes(reading payload: RawSpan) throws(UnreadableRecord) -> [Change] {
        var changes: [Change] = []
        try read(payload) { cursor throws(UnreadableRecord) in try cursor.forEachChange { changes.append($0) }
        }
        return changes
    }

    /// The writer and the changes of a delta record.
    /// - Throws: For a payload that cannot be read.
    package static func authoredChanges(
        reading payload: RawSpan
    ) throws(UnreadableRecord) -> (Authorship, [Change]) {
        try read(payload) { cursor throws(UnreadableRecord) in
            let authorship = try cursor.readAuthorship()
            var changes: [Change] = []
            try cursor.forEachChange { changes.append($0) }
            return (authorship, changes)
        }
    }

    static func read<Result>(
        _ payload: RawSpan, _ body: (inout ByteCursor) throws(UnreadableRecord) -> Result
    ) throws(UnreadableRecord) -> Result {
        try withCursor(over: payload) { (cursor: inout ByteCursor) throws(UnreadableRecord) -> Result in
            let result = try body(&cursor)
            guard cursor.isAtEnd else { throw UnreadableRecord(reason: "bytes are left over") }
            return result
        }
    }
}

extension Engine {
    /// Applies a record. For recovery, before there are listens.
    /// - Throws: For a payload that cannot be read. Then the engine must be dropped: a part may be applied.
    package mutating func replay(_ kind: EngineRecord.Kind, _ payload: RawSpan) throws(UnreadableRecord) {
        switch kind {
        case .delta:
            // Each change is applied as it is read. After an error the whole state is dropped.
            try EngineRecord.read(payload) { cursor throws(UnreadableRecord) in
                try cursor.forEachChange { tree.restore($0) }
            }
        case .authoredDelta:
            try EngineRecord.read(payload) { cursor throws(UnreadableRecord) in
                _ = try cursor.readAuthorship()
                try cursor.forEachChange { tree.restore($0) }
            }
        case .tree:
            try tree.restore(TreePart(reading: payload))
        case .onDisconnectRegistered:
            let (session, writes, credentials) = try EngineRecord.read(payload) {
                cursor throws(UnreadableRecord) in
                try cursor.readRegistration()
            }
            // Sign-ins are not stored: the sessions have ended by the time the record is read.
            queues.add(writes, by: credentials.map { .init(credential: $0) }, to: session)
        case .onDisconnectCancelled:
            let (session, path) = try EngineRecord.read(payload) { cursor throws(UnreadableRecord) in
                try cursor.readCancellation()
            }
            if let path { queues.cancel(at: path, of: session) } else { queues.removeAll(of: session) }
        }
    }
}

extension LiveTree {
    /// Adds a part of a tree that a checkpoint holds.
    /// - Throws: For children that do not follow those of an earlier part.
    fileprivate mutating func restore(_ part: TreePart) throws(UnreadableRecord) {
        switch part {
        case .node(let path, let node): root.set(node, at: path)
        case .priority(let path, let priority): root.set(priority: priority, at: path)
        case .children(let path, var entries):
            guard root.append(&entries, at: path) else {
                throw UnreadableRecord(reason: "children out of order at \(path)")
            }
        }
    }
}

extension ByteCursor {
    fileprivate mutating func forEachChange(_ body: (Change) -> Void) throws(UnreadableRecord) {
        let base = try readPath()
        for _ in 0..<(try readCount()) {
            let path = try readPath(below: base)
            body(Change(path: path, node: try readJSON()))
        }
    }

    private mutating func readCredential() throws(UnreadableRecord) -> Credential {
        let isAdmin = try readByte() == 1
        let authVariable = try readByte() == 1 ? Text(try readString()) : nil
        return Credential(isAdmin: isAdmin, authVariable: authVariable)
    }

    fileprivate mutating func readRegistration() throws(UnreadableRecord) -> (
        SessionID, [Write], [Credential]
    ) {
        let session = SessionID(try readInteger())
        var credentials = [try readCredential()]
        var writes: [Write] = []
        for _ in 0..<(try readCount()) {
            let target = Target(full: try readPath())
            let node = try readJSON()
            let depth = try readDepth()
            var placeholders: [Draft.Placeholder] = []
            for _ in 0..<(try readCount()) {
                let place = Target(full: try readPath())
                placeholders.append(.init(target: place, value: try readServerValue()))
            }
            writes.append(Write(target, Draft(node, placeholders: placeholders, depth: depth)))
        }
        while !isAtEnd { credentials.append(try readCredential()) }
        return (session, writes, credentials)
    }

    fileprivate mutating func readCancellation() throws(UnreadableRecord) -> (SessionID, Path?) {
        let session = SessionID(try readInteger())
        return (session, try readByte() == 1 ? nil : try readPath())
    }

    private mutating func readServerValue() throws(UnreadableRecord) -> ServerValue {
        switch try readByte() {
        case 0: return .timestamp
        case 1:
            let by = try readJSON()
            switch by {
            case .integer, .double: return .increment(by)
            default: throw UnreadableRecord(reason: "an increment is not a number at byte \(offset)")
            }
        case let kind: throw UnreadableRecord(reason: "unknown server value \(kind) at byte \(offset)")
        }
    }

    // MARK: Fields

    func ended() -> UnreadableRecord { UnreadableRecord(reason: "the record ends at byte \(offset)") }

    mutating func readCount() throws(UnreadableRecord) -> Int {
        // Every counted item takes at least a byte, so a larger count is invalid.
        guard let value = try? readVarint(), value <= UInt64(count) else { throw ended() }
        return Int(value)
    }

    mutating func readByte() throws(UnreadableRecord) -> UInt8 {
        guard !isAtEnd else { throw ended() }
        defer { advance() }
        return current
    }

    mutating func readInteger() throws(UnreadableRecord) -> UInt64 {
        guard let value = try? readLittleEndian(UInt64.self) else { throw ended() }
        return value
    }

    private mutating func readString() throws(UnreadableRecord) -> String {
        guard let range = try? readCounted() else { throw ended() }
        return string(range)
    }

    /// The depth of a draft. It may count levels whose data was null, so it is not bounded by the record's
    /// length.
    private mutating func readDepth() throws(UnreadableRecord) -> Int {
        guard let value = try? readVarint() else { throw ended() }
        guard value <= UInt64(Limits.jsonDepth) else {
            throw UnreadableRecord(reason: "a draft \(value) levels deep")
        }
        return Int(value)
    }

    /// Checked as strictly as a path of a client, since the tree is visited by recursion.
    mutating func readPath(below base: Path = .root) throws(UnreadableRecord) -> Path {
        guard let range = try? readCounted() else { throw ended() }
        var keys = base.keys
        var start = range.lowerBound
        while start < range.upperBound {
            var end = start
            while end < range.upperBound, self[end] != UInt8(ascii: "/") { end += 1 }
            let key = legalKey(start..<end)
            // A final `.priority` may be one key more than a node's path may have.
            let isPriority =
                end == range.upperBound && key == nil && self.key(start..<end) == Path.priorityKey
            guard isPriority || keys.count < Limits.pathDepth, let key = isPriority ? Path.priorityKey : key,
                keys.last != Path.priorityKey
            else { throw UnreadableRecord(reason: "no path before byte \(offset)") }
            keys.append(key)
            start = end + 1
        }
        return Path(keys)
    }

    private mutating func readJSON() throws(UnreadableRecord) -> Node { try node(try readJSONRange()) }

    /// Moves past a value.
    /// - Returns: Where its JSON lies.
    mutating func readJSONRange() throws(UnreadableRecord) -> Range<Int> {
        guard let length = try? readLittleEndian(UInt32.self), Int(length) <= remaining else { throw ended() }
        let range = offset..<(offset + Int(length))
        advance(Int(length))
        return range
    }

    /// Reads JSON that ``readJSONRange()`` has found.
    func node(_ range: Range<Int>) throws(UnreadableRecord) -> Node {
        if !range.isEmpty, self[range.lowerBound] != UInt8(ascii: "{") { return try leaf(range) }
        do {
            return try unsafe withBytes(range) { bytes in
                try unsafe Node(json: RawSpan(_unsafeBytes: UnsafeRawBufferPointer(bytes)))
            }
        } catch {
            throw UnreadableRecord(reason: "no data at byte \(range.lowerBound): \(error)")
        }
    }
}

extension ByteCursor {
    /// A leaf without a priority, as most values are. It needs no parser of objects.
    private func leaf(_ range: Range<Int>) throws(UnreadableRecord) -> Node {
        do {
            return try unsafe withBytes(range) { bytes in
                try unsafe withCursor(over: RawSpan(_unsafeBytes: UnsafeRawBufferPointer(bytes))) { cursor in
                    var reader = JSONReader(cursor)
                    let node = try reader.readLeaf()
                    try reader.expectEnd()
                    if let problem = reader.invalidData { throw problem }
                    if case .string(let text) = node, text.utf8Count > Limits.stringByteCount {
                        throw InvalidData.stringTooLong
                    }
                    return node
                }
            }
        } catch {
            throw UnreadableRecord(reason: "no data at byte \(range.lowerBound): \(error)")
        }
    }
}

extension Target {
    /// The target whose ``fullPath`` this is.
    init(full path: Path) {
        self = path.namesPriority ? Target(path.parent, isPriority: true) : Target(path)
    }
}
