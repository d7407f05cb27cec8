import PandoBytes
import PandoEngine
import PandoTree

/// What the database thread knows of a session. A class, so that looking one up copies a reference.
final class HostedSession {
    let database: Database
    /// Nil of an event stream.
    let publicID: PublicSessionID?
    /// As whom it last asked: what it hears is looked at again when the rules change.
    var credential = Credential.anonymous
    /// Listens looked at again in this minute, because the credential changed.
    var rechecks: (minute: Int64, count: Int) = (0, 0)
    /// The queries of its filtered listens as it spelled them, by tag: it knows them again by that (§5.4).
    var queryTexts: [Int64: Text] = [:]

    init(database: Database, publicID: PublicSessionID?, credential: Credential = .anonymous) {
        self.database = database
        self.publicID = publicID
        self.credential = credential
    }
}

/// The sessions of all databases. One that asks sixteen things at once is looked up once.
struct SessionTable {
    private var byID: [SessionID: HostedSession] = [:]
    /// Who was found last.
    private var last: (id: SessionID, session: HostedSession)?

    /// Nil for who is not, or no longer, connected.
    subscript(id: SessionID) -> HostedSession? {
        mutating get {
            if let last, last.id.rawValue == id.rawValue { return last.session }
            guard let found = byID[id] else { return nil }
            last = (id, found)
            return found
        }
    }

    mutating func add(_ session: HostedSession, as id: SessionID) {
        byID[id] = session
        last = (id, session)
    }

    /// Forgets a session, and gives it.
    mutating func remove(_ id: SessionID) -> HostedSession? {
        last = nil
        return byID.removeValue(forKey: id)
    }

    /// Everybody, in ascending order.
    var ids: [SessionID] { byID.keys.sorted { $0.rawValue < $1.rawValue } }
}
