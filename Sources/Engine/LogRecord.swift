import PandoBytes
import PandoRules
import PandoTree

// What the engine writes down of a delta, and how it reads it back. The journal carries these payloads and does not
// look inside.
//
//  delta                     base path, count, then for each change:  path below the base, JSON
//  onDisconnectRegistered    session (8), credential, count, then for each write:  path, JSON, depth,
//                            placeholder count, then for each:  path, 0 (timestamp) | 1 (increment) JSON;
//                            then further credentials, to the end, if several people put something into one write
//  onDisconnectCancelled     session (8), 0 path | 1 (everything)
//
//  path        length, `a/b` (a final `.priority` means only the priority)
//  JSON        length (4 bytes), export form
//  credential  0 (a user) | 1 (an administrator), then 0 | 1 and, after 1, length and the `auth` variable as JSON
//
// Lengths and counts are varints unless said otherwise; integers are little-endian.

/// One record of the log: its kind and its payload.
package struct LogRecord: Sendable {
    package enum Kind: Sendable {
        case delta, onDisconnectRegistered, onDisconnectCancelled
        /// A part of the tree as it stands: see `TreeRecord.swift`.
        case tree
    }

    package var kind: Kind
    package var payload: [UInt8]
}

/// A payload that passed its checksum and still makes no sense: written by another version, or by a bug.
package struct UnreadableRecord: Error, Equatable {
    package var reason: String

    package init(reason: String) {
        self.reason = reason
    }
}

extension Delta {
    /// How many records are to be made durable, as one entry, before the delta's effects leave; 0 for what leaves no
    /// trace.
    /// - Parameter hadQueue: The session had onDisconnect writes queued before the delta was committed.
    package func recordCount(hadQueue: Bool) -> Int {
        switch kind {
        case .nothing, .listen, .unlisten: 0
        case .write, .queue, .unqueue: 1
        case .endSession(let changes): !hadQueue ? 0 : changes.isEmpty ? 1 : 2
        }
    }

    /// Appends the payload of one of the records.
    /// - Parameter index: Below ``recordCount(hadQueue:)``.
    package func append(record index: Int, to payload: inout [UInt8]) -> LogRecord.Kind {
        switch kind {
        case .write(_, let changes): return payload.append(delta: changes)
        case .queue(let writes, let credential): return payload.append(registered: writes, [credential], for: session)
        case .unqueue(let path): return payload.append(cancelled: path, for: session)
        case .endSession(let changes):
            // What it wrote comes first, if there is any.
            return changes.isEmpty || index == 1
                ? payload.append(cancelled: nil, for: session) : payload.append(delta: changes)
        case .nothing, .listen, .unlisten: preconditionFailure("a delta without records")
        }
    }

    /// The same as an array, where speed does not matter.
    package func records(hadQueue: Bool) -> [LogRecord] {
        (0..<recordCount(hadQueue: hadQueue)).map { index in LogRecord { append(record: index, to: &$0) } }
    }
}

extension LogRecord {
    fileprivate init(_ print: (inout [UInt8]) -> Kind) {
        payload = []
        kind = print(&payload)
    }

    package static func delta(_ changes: [Change]) -> LogRecord { LogRecord { $0.append(delta: changes) } }

    /// Bytes that queueing the writes takes in the log; running them takes about as many again.
    package static func byteCount(ofQueueing writes: [Write]) -> Int {
        registered(SessionID(0), writes, [.anonymous]).payload.count
    }

    /// - Parameter credentials: At least one.
    static func registered(_ session: SessionID, _ writes: [Write], _ credentials: [Credential]) -> LogRecord {
        LogRecord { $0.append(registered: writes, credentials, for: session) }
    }
}

// MARK: - Payloads

extension [UInt8] {
    fileprivate mutating func append(delta changes: [Change]) -> LogRecord.Kind {
        // Paths below the base only: many changes far down would otherwise repeat all that is above them.
        let baseCount = Self.commonBaseCount(of: changes)
        append(countedPath: changes.first?.path.keys[..<baseCount] ?? [])
        append(varint: UInt64(changes.count))
        for change in changes {
            append(countedPath: change.path.keys[baseCount...])
            append(countedJSON: change.node)
        }
        return .delta
    }

    /// Keys of the deepest path that all changes are at or below.
    private static func commonBaseCount(of changes: [Change]) -> Int {
        guard let first = changes.first?.path else { return 0 }
        var count = first.count
        for change in changes.dropFirst() {
            count = zip(first.keys[..<count], change.path.keys).prefix { $0 == $1 }.count
        }
        return count
    }

    fileprivate mutating func append(
        registered writes: [Write], _ credentials: [Credential], for session: SessionID
    ) -> LogRecord.Kind {
        append(littleEndian: session.rawValue)
        append(credential: credentials[0])
        append(varint: UInt64(writes.count))
        for write in writes {
            append(countedPath: write.target.fullPath.keys[...])
            append(countedJSON: write.draft.node)
            append(varint: UInt64(write.draft.depth))
            append(varint: UInt64(write.draft.placeholders.count))
            for placeholder in write.draft.placeholders {
                append(countedPath: placeholder.target.fullPath.keys[...])
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

    fileprivate mutating func append(cancelled path: Path?, for session: SessionID) -> LogRecord.Kind {
        append(littleEndian: session.rawValue)
        append(path == nil ? 1 : 0)
        if let path { append(countedPath: path.keys[...]) }
        return .onDisconnectCancelled
    }

    fileprivate mutating func append(credential: Credential) {
        append(credential.isAdmin ? 1 : 0)
        append(credential.authVariable == nil ? 0 : 1)
        if let variable = credential.authVariable { append(counted: variable) }
    }

    /// Appends what ``Path/wireText`` spells, counted, without spelling it first.
    mutating func append(countedPath keys: ArraySlice<Key>) {
        guard !keys.isEmpty else { return append(0) }
        var byteCount = keys.count - 1
        for index in keys.indices { byteCount += keys[index].utf8Count }
        append(room: Self.varintByteLimit + byteCount + Key.roomByteCount) { writer in
            // Each key is written with the byte before it: the length's last, or a slash.
            var first = byteCount
            while first >= 0x80 {
                writer.append(UInt8(truncatingIfNeeded: first) | 0x80)
                first >>= 7
            }
            for index in keys.indices {
                writer.append(
                    index == keys.startIndex ? UInt8(truncatingIfNeeded: first) : UInt8(ascii: "/"), utf8: keys[index])
            }
        }
    }

    /// Bytes of the longest varint.
    private static var varintByteLimit: Int { 10 }

    fileprivate mutating func append(countedJSON node: Node) {
        let start = count
        append(littleEndian: UInt32(0))
        append(json: node)
        replace(littleEndian: UInt32(count - start - 4), at: start)
    }
}

// MARK: - What is queued

/// What sessions had queued at one moment.
package struct QueueSnapshot: Sendable {
    fileprivate let queues: [(session: SessionID, queue: DisconnectQueue)]

    /// Replayed into an engine without queues, they make the same ones. One record for each pending write.
    package var records: [LogRecord] {
        queues.flatMap { session, queue in
            queue.pending.map { .registered(session, [$0.write], $0.credentials) }
        }
    }
}

extension Engine {
    /// All that sessions have queued, for a checkpoint: a snapshot, which another thread may write down. O(sessions).
    package var queueSnapshot: QueueSnapshot {
        QueueSnapshot(
            queues: sessionsWithQueue.map { ($0, sessions[$0]?.queue ?? DisconnectQueue()) })
    }

    /// The records of ``queueSnapshot``.
    package var queueRecords: [LogRecord] { queueSnapshot.records }

    /// Bytes that the session's queue takes in the log. O(queue).
    package func queuedByteCount(of session: SessionID) -> Int {
        LogRecord.byteCount(ofQueueing: (sessions[session]?.queue.pending ?? []).map(\.write))
    }
}
