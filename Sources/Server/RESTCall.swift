import PandoREST
import PandoTree

/// One REST request on its way to the database thread (rest-api §9: whom it is for is looked at before anything that
/// may be wrong with it).
struct RESTCall: Sendable {
    enum Action: Sendable {
        /// Something was wrong with the request; the loop has found it.
        case refuse(RESTError)
        case data(RESTRequest, RESTBody?, Credential)
        /// `/.settings/rules.json`, with the new source for a PUT.
        case rules(RESTRequest, source: [UInt8], Credential)
        /// Another `/.settings/<name>.json`, with the new value for a PUT.
        case setting(String, RESTRequest, value: [UInt8], Credential)
        case listDatabases(Credential)
    }

    /// Nil stands for the default one.
    var namespace: String?
    var action: Action
}

/// What came of it; the loop makes the answer.
enum RESTOutcome: Sendable {
    case read(Node)
    /// What a PUT or DELETE has left at its place.
    case written(Node)
    /// What a PATCH has written, one for each of its updates.
    case updated([Node])
    case pushed(Key, Node)
    /// The data has another tag (§7).
    case stale(Node)
    case refused(RESTError)
    /// 400, in words that no other case has.
    case failed(String)
    /// Events follow (§8).
    case stream
    case verbatim([UInt8])
}
