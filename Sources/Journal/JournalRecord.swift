import PandoBytes

/// The meaning of a payload to the caller. The journal never reads payloads. The numbers never change.
package enum RecordKind: UInt16, Sendable, CaseIterable {
    /// Resolved sets and removals of one namespace, of versions that did not keep who wrote them. Read, and
    /// not written any more.
    case delta = 1
    /// The security rules of a namespace: in checkpoints, and in journals of versions that did not keep who
    /// published them.
    case rules = 2
    case settings = 3
    case namespaceMade = 4
    case namespaceDeleted = 5
    /// Writes to run when a session ends, with the credential they run as.
    case onDisconnectRegistered = 6
    case onDisconnectCancelled = 7
    /// A part of a namespace's tree as it stands: checkpoints are made of them.
    case tree = 8
    /// Resolved sets and removals of one namespace, and who wrote them.
    case authoredDelta = 9
    /// Security rules that were published, and who did.
    case publishedRules = 10
}

/// The position of a record in its entry.
package struct RecordFlags: OptionSet, Hashable, Sendable {
    package let rawValue: UInt16
    package init(rawValue: UInt16) { self.rawValue = rawValue }

    /// The first record of an entry.
    package static let begin = RecordFlags(rawValue: 1)
    /// The last record of an entry. The entry counts only if this record is on disk.
    package static let commit = RecordFlags(rawValue: 2)
}

/// One record to be appended.
package struct JournalRecord: Sendable {
    package var kind: RecordKind
    package var namespace: UInt32
    /// When the server accepted it; milliseconds since 1970.
    package var timestamp: Int64
    package var payload: [UInt8]

    package init(_ kind: RecordKind, namespace: UInt32, timestamp: Int64, payload: [UInt8]) {
        self.kind = kind
        self.namespace = namespace
        self.timestamp = timestamp
        self.payload = payload
    }
}
