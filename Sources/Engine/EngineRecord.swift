import PandoBytes
import PandoRules
import PandoTree

// The records of a delta for the journal, which does not read the payloads.
//
//  delta                     base path, count, then for each change:  path below the base, JSON
//                            (former versions; now only read)
//  authoredDelta             writer (Writer.swift), then the same
//  onDisconnectRegistered    session (8), credential, count, then for each write:  path, JSON, depth,
//                            placeholder count, then for each:  path, 0 (timestamp) | 1 (increment) JSON;
//                            then further credentials, to the end, if one write has several authors
//  onDisconnectCancelled     session (8), 0 path | 1 (everything)
//
//  path        length, `a/b` (a final `.priority` means only the priority)
//  JSON        length (4 bytes), export form
//  credential  0 (a user) | 1 (an administrator), then 0 | 1 and, after 1, length and the `auth` variable as JSON
//
// Lengths and counts are varints unless said otherwise; integers are little-endian.

/// One record of the journal: its kind and its payload.
package struct EngineRecord: Sendable {
    package enum Kind: Sendable {
        /// Changes of a former version, which kept no writer.
        case delta
        /// Changes, and who wrote them.
        case authoredDelta
        case onDisconnectRegistered, onDisconnectCancelled
        /// A part of the current tree: see `TreeRecord.swift`.
        case tree
    }

    package var kind: Kind
    package var payload: [UInt8]
}

extension Delta {
    /// The number of records of the delta. They are one entry, which must be durable before the delta's
    /// effects leave, unless these are redundant. 0 for a delta that changes nothing durable.
    /// - Parameter hadQueue: The session had onDisconnect writes queued before the delta was committed.
    /// - Complexity: O(1).
    package func recordCount(hadQueue: Bool) -> Int {
        switch kind {
        case .nothing, .denied, .listen, .unlisten: 0
        case .put, .write, .queue: 1
        case .unqueue(let paths): paths.count
        case .endSession(_, let runs): !hadQueue ? 0 : runs.count + 1
        }
    }

    /// Appends the payload of one record. The delta is the same afterwards: the change of a put is only moved
    /// out while it is printed, so that no reference is counted.
    /// - Parameters:
    ///   - index: Below ``recordCount(hadQueue:)``.
    ///   - credential: That of the command. (The changes of a session's end have those that queued them.)
    ///   - printed: Nodes that were printed ahead. What is found there is not copied into `payload`: see
    ///     ``PrintedNodes/takeInsertions()``.
    /// - Returns: The kind of the record.
    /// - Complexity: O(size of the record).
    package mutating func append(
        record index: Int, by credential: borrowing Credential, to payload: inout [UInt8],
        using printed: inout PrintedNodes?
    ) -> EngineRecord.Kind {
        if let kind = appendPut(by: credential, to: &payload, using: &printed) { return kind }
        switch kind {
        case .write(_, let changes):
            payload.append(writer: credential, isOnDisconnect: false)
            if printed?.insertRecord(at: payload.count) == true { return .authoredDelta }
            return payload.append(delta: changes[...], using: &printed)
        case .queue(let writes, let author):
            return payload.append(registered: writes, [author.credential], for: session, using: &printed)
        case .unqueue(let paths): return payload.append(cancelled: paths[index], for: session)
        case .endSession(let changes, let runs):
            // First the changes of the queue, if there are any.
            guard index < runs.count else { return payload.append(cancelled: nil, for: session) }
            payload.append(writer: runs[index].credential, isOnDisconnect: true)
            if runs.count == 1, printed?.insertRecord(at: payload.count) == true { return .authoredDelta }
            let start = index == 0 ? 0 : runs[index - 1].end
            return payload.append(delta: changes[start..<runs[index].end], using: &printed)
        case .nothing, .denied, .put, .listen, .unlisten: preconditionFailure("a delta without records")
        }
    }

    /// Appends the record of a put; nil for anything else.
    private mutating func appendPut(
        by credential: borrowing Credential, to payload: inout [UInt8], using printed: inout PrintedNodes?
    ) -> EngineRecord.Kind? {
        guard let change = kind.extractPut() else { return nil }
        payload.append(writer: credential, isOnDisconnect: false)
        payload.append(delta: change, using: &printed)
        kind = .put(consume change)
        return .authoredDelta
    }

    /// All records as an array: for recovery, tests and tools.
    /// - Parameter credential: That of the command.
    package func records(hadQueue: Bool, by credential: Credential = .anonymous) -> [EngineRecord] {
        var delta = self
        return (0..<recordCount(hadQueue: hadQueue)).map { index in
            EngineRecord { payload, printed in
                delta.append(record: index, by: credential, to: &payload, using: &printed)
            }
        }
    }
}

extension EngineRecord {
    fileprivate init(_ print: (inout [UInt8], inout PrintedNodes?) -> Kind) {
        payload = []
        var printed: PrintedNodes?
        kind = print(&payload, &printed)
    }

    /// The record that a former version wrote for these changes. O(size).
    package static func delta(_ changes: [Change]) -> EngineRecord {
        EngineRecord {
            _ = $0.append(delta: changes[...], using: &$1)
            return .delta
        }
    }

    /// The record of these changes. O(size).
    package static func delta(
        _ changes: [Change], by credential: Credential, isOnDisconnect: Bool = false
    ) -> EngineRecord {
        EngineRecord {
            $0.append(writer: credential, isOnDisconnect: isOnDisconnect)
            return $0.append(delta: changes[...], using: &$1)
        }
    }

    /// - Parameter credentials: At least one.
    static func registered(
        _ session: SessionID, _ writes: [Write], _ credentials: [Credential]
    ) -> EngineRecord {
        EngineRecord { $0.append(registered: writes, credentials, for: session, using: &$1) }
    }
}

// MARK: - Payloads

extension [UInt8] {
    /// With one change the base is its whole path.
    fileprivate mutating func append(delta change: Change, using printed: inout PrintedNodes?) {
        append(counted: change.path)
        append(counted: change.node, using: &printed) { writer in
            writer.append(varint: 1)
            writer.append(0)
        }
    }

    fileprivate mutating func append(delta changes: ArraySlice<Change>, using printed: inout PrintedNodes?)
        -> EngineRecord.Kind
    {
        // Paths are relative to the base, so that many changes deep in the tree do not repeat the keys above
        // them.
        let baseCount = Self.commonBaseCount(of: changes)
        let keys = changes.first?.path.keys ?? []
        append(counted: keys.span.extracting(..<baseCount))
        append(varint: UInt64(changes.count))
        for change in changes {
            let keys = change.path.keys
            append(counted: keys.span.extracting(baseCount...))
            append(countedJSON: change.node, using: &printed)
        }
        return .authoredDelta
    }

    /// The number of keys of the deepest path that all changes are at or below.
    private static func commonBaseCount(of changes: ArraySlice<Change>) -> Int {
        guard let first = changes.first?.path else { return 0 }
        var count = first.count
        for change in changes.dropFirst() {
            count = zip(first.keys[..<count], change.path.keys).prefix { $0 == $1 }.count
        }
        return count
    }

    fileprivate mutating func append(
        registered writes: [Write], _ credentials: [Credential], for session: SessionID,
        using printed: inout PrintedNodes?
    ) -> EngineRecord.Kind {
        append(littleEndian: session.rawValue)
        append(credential: credentials[0])
        append(varint: UInt64(writes.count))
        for write in writes {
            append(counted: write.target.fullPath)
            append(countedJSON: write.draft.node, using: &printed)
            append(varint: UInt64(write.draft.depth))
            append(varint: UInt64(write.draft.placeholders.count))
            for placeholder in write.draft.placeholders {
                append(counted: placeholder.target.fullPath)
                switch placeholder.value {
                case .timestamp: append(0)
                case .increment(let by):
                    append(1)
                    append(countedJSON: by)
                }
            }
        }
        for credential in credentials.dropFirst() { append(credential: credential) }
        return .onDisconnectRegistered
    }

    fileprivate mutating func append(cancelled path: Path?, for session: SessionID) -> EngineRecord.Kind {
        append(littleEndian: session.rawValue)
        append(path == nil ? 1 : 0)
        if let path { append(counted: path) }
        return .onDisconnectCancelled
    }

    fileprivate mutating func append(credential: Credential) {
        append(credential.isAdmin ? 1 : 0)
        append(credential.authVariable == nil ? 0 : 1)
        if let variable = credential.authVariable { append(counted: variable) }
    }

    fileprivate mutating func append(countedJSON node: Node) {
        var printed: PrintedNodes?
        append(counted: node, using: &printed) { _ in }
    }

    fileprivate mutating func append(countedJSON node: Node, using printed: inout PrintedNodes?) {
        append(counted: node, using: &printed) { _ in }
    }

    /// - Parameter head: Writes up to ``headByteLimit`` bytes before it.
    @inline(__always)
    private mutating func append(
        counted node: Node, using printed: inout PrintedNodes?, after head: (inout ByteWriter) -> Void
    ) {
        append(atMost: Self.headByteLimit + 4) { writer in
            head(&writer)
            writer.append(littleEndian: UInt32(0))
        }
        let start = count
        if let byteCount = printed?.insert(node, at: start) {
            replace(littleEndian: UInt32(byteCount), at: start - 4)
        } else {
            append(json: node)
            replace(littleEndian: UInt32(count - start), at: start - 4)
        }
    }

    /// The most bytes that a `head` of ``append(counted:using:after:)`` writes.
    private static var headByteLimit: Int { 2 }
}
