import PandoREST
import PandoTree

/// One REST request on its way to the database thread (rest §9: whom it is for is looked at before
/// anything that may be wrong with it).
///
/// A class, because it goes from hand to hand: its parts are counted once.
final class RESTCall: Sendable {
    enum Action: Sendable {
        /// Something was wrong with the request; the loop has found it.
        case refuse(RESTError)
        /// A large body is announced: can anything come of the request, whatever the body says?
        case admit(RESTRequest, Credential)
        case data(RESTRequest, RESTBody?, Credential)
        /// `/.settings/rules.json`, with the new source for a PUT.
        case rules(RESTRequest, source: [UInt8], Credential)
        /// Another `/.settings/<name>.json`, with the new value for a PUT.
        case setting(String, RESTRequest, value: [UInt8], Credential)
        case listDatabases(Credential)
        case listDenials(Credential)
        /// `/.inspect/backup`.
        case backup(Credential)
    }

    /// Nil stands for the default one.
    let namespace: String?
    let action: Action
    /// See ``DatabaseMessage/isLight``.
    let isLight: Bool

    /// Whether it may change anything.
    var isWrite: Bool {
        switch action {
        case .data(let request, _, _), .rules(let request, _, _), .setting(_, let request, _, _):
            !request.method.isRead
        case .refuse, .admit, .listDatabases, .listDenials, .backup: false
        }
    }

    init(namespace: String?, action: Action) {
        self.namespace = namespace
        self.action = action
        isLight =
            switch action {
            case .refuse, .admit: true
            case .data(let request, _, _): request.ifMatch == nil && !request.wantsStream
            case .rules, .setting, .listDatabases, .listDenials, .backup: false
            }
    }
}

/// What came of it; the loop makes the answer.
enum RESTOutcome: Sendable {
    case read(Node)
    /// The children of a node that a query lets through: a worker finds them, and it becomes a ``read(_:)``.
    indirect case filtered(Node, Query)
    /// What a PUT or DELETE has left at its place.
    case written(Node)
    /// What a PUT has written, as it was sent: the client may not read what became of it. It has no tag,
    /// which would show that.
    case writtenUnread(Node)
    /// What a PATCH has written, one for each of its updates.
    case updated([Node])
    /// The name of a new child, and what it holds; nil where the client may not read that.
    case pushed(Key, Node?)
    /// The data has another tag (rest §7).
    case stale(Node)
    case refused(RESTError)
    /// 400, in words that no other case has.
    case failed(String)
    /// Events follow (rest §8).
    case stream
    case verbatim([UInt8])
    /// Everything as it is now, all of it durable when this is heard.
    case backup(BackupBytes)
    /// The body may come.
    case admitted
}

extension RESTOutcome {
    /// The data that it is about.
    var node: Node? {
        switch self {
        case .read(let node), .written(let node), .stale(let node): node
        case .pushed(_, let node): node
        case .filtered, .writtenUnread, .updated, .refused, .failed, .stream, .verbatim, .backup, .admitted:
            nil
        }
    }

    /// True for data that is bounded by what one read may give.
    var isRead: Bool {
        switch self {
        case .read, .filtered: true
        default: false
        }
    }

    /// True when the answer carries the tag of ``node``, which is costly to find.
    func wantsETag(_ request: RESTRequest) -> Bool {
        if case .stale = self { true } else { node != nil && request.returnsETag }
    }

    /// The answer that the client gets (rest §2, §7).
    /// - Parameters:
    ///   - request: Nil for one that was refused before it was understood.
    ///   - updates: Those of a PATCH.
    ///   - etag: That of ``node``, where ``wantsETag(_:)``.
    func answer(
        to request: RESTRequest?, _ updates: [RESTUpdate], etag: String?, _ context: ResponseContext
    ) -> RESTResponse {
        guard let request else {
            if case .refused(let error) = self { return .error(error, context) }
            return .error(.internalError, context)
        }
        switch self {
        case .read(let node):
            if let etag, etag == request.ifNoneMatch { return .notModified(etag: etag, context) }
            return .value(node, etag: etag, to: request, context)
        case .written(let node), .writtenUnread(let node):
            return .value(node, etag: etag, to: request, context)
        case .updated(let nodes): return .update(updates, resolved: nodes, to: request, context)
        case .pushed(let key, _): return .name(key, etag: etag, to: request, context)
        case .stale(let node):
            return .preconditionFailed(current: node, etag: etag ?? "", to: request, context)
        case .refused(let error): return .error(error, context)
        case .failed(let text): return .error(.badRequest, text: text, context)
        case .verbatim(let bytes): return .verbatim(bytes, context)
        case .backup(let bytes): return .download(bytes, name: bytes.fileName, context)
        case .filtered, .stream, .admitted: return .error(.internalError, context)
        }
    }
}
