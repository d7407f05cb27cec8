import PandoBytes
import PandoEngine
import PandoRules
import PandoStorage
import PandoTree

/// What the databases know of a session: a realtime connection, or an event stream. A class, so that looking
/// one up copies a reference.
final class HostedSession {
    let database: StoredDatabase
    /// The id that its client knows; nil for an event stream.
    let publicID: PublicSessionID?
    /// Whose rights it has: its listens are checked again when the rules change.
    var credential = Credential.anonymous
    /// Which of its credentials that is (``DatabaseMessage/credentialChanged(_:_:number:)``).
    var credentialNumber: UInt32 = 0
    /// The credentials up to this number have ended; 0 for none.
    var endedCredentialNumber: UInt32 = 0
    /// The sign-ins that are revoked, by the numbers of ``PostedRequest/signIn``, each with the number of the
    /// session's last credential before that.
    private var revokedSignIns: [UInt32: UInt32] = [:]
    /// Listens that were checked again in this minute because the credential changed.
    var rechecks: (minute: UInt32, count: UInt32) = (0, 0)
    /// The queries of its filtered listens by tag, as the client spelled them: a revoked listen is named by
    /// its text (realtime §5.4).
    var queryTexts = QueryTexts()
    /// The held bytes that were last published to its connection
    /// (``CommandProcessor/publishHeldBytes(of:)``).
    var publishedByteCount: Int {
        get { Int(storedPublishedByteCount) }
        set { storedPublishedByteCount = UInt32(clamping: newValue) }
    }
    private var storedPublishedByteCount: UInt32 = 0

    init(database: StoredDatabase, publicID: PublicSessionID?, credential: Credential = .anonymous) {
        self.database = database
        self.publicID = publicID
        self.credential = credential
    }

    /// These sign-ins are revoked, as far as they were shown with credentials up to `number`.
    func revoke(_ signIns: Set<UInt32>, upTo number: UInt32) {
        for signIn in signIns { revokedSignIns[signIn] = number }
    }

    /// Whether a credential has ended, by its number or by its sign-in (each is 0 for none): nothing may be
    /// done under it any more.
    func hasEnded(_ credentialNumber: UInt32, signIn: UInt32) -> Bool {
        if credentialNumber > 0, credentialNumber <= endedCredentialNumber { return true }
        guard let last = revokedSignIns[signIn] else { return false }
        return credentialNumber <= last
    }
}

/// The texts of a session's queries, by tag, with the bytes that they take.
struct QueryTexts {
    private var texts: [Int64: Text] = [:]
    /// About the bytes of memory.
    private(set) var byteCount = 0

    var count: Int { texts.count }

    /// Of each entry of the table.
    private static let entryByteCount = 64

    /// Sets the text of a tag; nil for none.
    mutating func set(_ text: Text?, of tag: Int64) {
        _ = remove(tag)
        guard let text else { return }
        texts[tag] = text
        byteCount += Self.entryByteCount + text.utf8Count
    }

    /// Removes the text of a tag.
    /// - Returns: Nil where there is none.
    mutating func remove(_ tag: Int64) -> Text? {
        guard let text = texts.removeValue(forKey: tag) else { return nil }
        byteCount -= Self.entryByteCount + text.utf8Count
        return text
    }
}

/// The sessions of all databases, by their ids and by the ids that clients know.
///
/// Invariant: a public id leads to a session that is registered.
struct SessionRegistry {
    private var byID: [SessionID: HostedSession] = [:]
    private var byPublicID: [PublicSessionID: SessionID] = [:]
    /// The session that was found last: a client that sends sixteen requests at once is looked up once.
    private var last: (id: SessionID, session: HostedSession)?

    /// Nil for a session that does not exist, or has ended.
    subscript(id: SessionID) -> HostedSession? {
        mutating get {
            if let last, last.id.rawValue == id.rawValue { return last.session }
            guard let found = byID[id] else { return nil }
            last = (id, found)
            return found
        }
    }

    /// The session that a client knows by this id.
    func session(knownAs publicID: PublicSessionID) -> SessionID? { byPublicID[publicID] }

    mutating func add(_ session: HostedSession, as id: SessionID) {
        byID[id] = session
        if let publicID = session.publicID { byPublicID[publicID] = id }
        last = (id, session)
    }

    /// Removes a session.
    /// - Returns: Nil where it was removed before.
    mutating func remove(_ id: SessionID) -> HostedSession? {
        last = nil
        guard let session = byID.removeValue(forKey: id) else { return nil }
        if let publicID = session.publicID { byPublicID[publicID] = nil }
        return session
    }

    var count: Int { byID.count }

    /// Some sessions, in the order of a hash table, and how many there are. O(`limit`).
    func some(atMost limit: Int) -> (sessions: [(SessionID, HostedSession)], count: Int) {
        (byID.prefix(limit).map { ($0.key, $0.value) }, byID.count)
    }

    /// All sessions, in ascending order.
    var ids: [SessionID] { byID.keys.sorted { $0.rawValue < $1.rawValue } }
}
