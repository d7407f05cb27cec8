import PandoBytes
import PandoREST
import PandoRules
import PandoStorage
import PandoTree

/// One REST request on its way to the databases (rest §9: an unknown namespace is reported before anything
/// else that is wrong with a request).
///
/// An object, so that passing it on copies one word.
package final class RESTCall: Sendable {
    /// Indirect, so that looking into it copies one word, too.
    package indirect enum Action: Sendable {
        /// The connection has found an error in the request.
        case refuse(RESTError)
        /// A large body is announced: may the request succeed, whatever the body holds?
        case admit(RESTRequest, Credential)
        /// A request for data, with the body of a write.
        case data(RESTRequest, RESTBody?, Credential)
        /// `/.settings/rules.json`, with the new source of a PUT, and who sends it.
        case rules(RESTRequest, RulesPublication, Credential)
        /// Another `/.settings/<name>.json`, with the new value of a PUT; nil where there is no such setting.
        case setting(Setting?, RESTRequest, value: [UInt8], Credential)
        /// The names of all namespaces.
        case listDatabases(Credential)
        /// `/.inspect/denials.json`.
        case listDenials(Credential)
        /// `/.inspect/children.json`.
        case listChildren(ChildListing, Credential)
        /// `/.inspect/backup`.
        case backup(Credential)
        /// `/.inspect/history.json`.
        case history(HistoryParameters, Credential)
        /// `/.inspect/evaluate.json`.
        case evaluate(EvaluationRequest, Credential)
    }

    /// Nil means `default`.
    package let namespace: String?
    package let action: Action
    /// The key of the child that a POST makes, where it was chosen before the request is executed.
    let newKey: Key?
    /// What became of the source of published rules, where another thread has compiled it.
    let compiledRules: Result<Ruleset, InvalidRules>?
    /// See ``DatabaseMessage/isLight``.
    let isLight: Bool
    /// Whether it may change data, rules or settings.
    package let isWrite: Bool
    /// Stands for the data that the response to a read holds; nil for other requests. The connection owns it.
    let pin: SnapshotPin?
    /// What a large body takes of the process's memory, as long as this is held.
    private let grant: ParsingBudget.Grant?

    /// Whether it was refused before it came to the databases: perhaps a write, whose client is to know.
    var isRefused: Bool { if case .refuse = action { true } else { false } }

    /// - Parameters:
    ///   - pin: Of the response to a read: its connection keeps it until all of that is printed.
    ///   - grant: What a large body takes of the process's memory.
    package convenience init(
        namespace: String?, action: Action, pin: SnapshotPin? = nil, grant: ParsingBudget.Grant? = nil
    ) {
        self.init(namespace: namespace, action: action, newKey: nil, compiledRules: nil, pin, grant)
    }

    /// The same POST, with the key of its child.
    func choosing(_ key: Key) -> RESTCall {
        RESTCall(namespace: namespace, action: action, newKey: key, compiledRules: nil, pin, grant)
    }

    /// The same publication of rules, with what became of their source.
    func publishing(_ rules: Result<Ruleset, InvalidRules>) -> RESTCall {
        RESTCall(namespace: namespace, action: action, newKey: nil, compiledRules: rules, pin, grant)
    }

    private init(
        namespace: String?, action: Action, newKey: Key?, compiledRules: Result<Ruleset, InvalidRules>?,
        _ pin: SnapshotPin?, _ grant: ParsingBudget.Grant?
    ) {
        self.pin = pin
        self.grant = grant
        self.compiledRules = compiledRules
        self.namespace = namespace
        self.action = action
        self.newKey = newKey
        switch action {
        case .refuse, .admit: (isLight, isWrite) = (true, false)
        case .data(let request, _, _):
            isLight = request.ifMatch == nil && !request.wantsStream
            isWrite = !request.method.isRead
        case .rules(let request, _, _), .setting(_, let request, _, _):
            (isLight, isWrite) = (false, !request.method.isRead)
        case .listDatabases, .listDenials, .listChildren, .backup, .history, .evaluate:
            (isLight, isWrite) = (false, false)
        }
    }
}

extension BackupBytes: ResponseBodySource {}

extension StoredDatabase {
    /// Bytes that the data may have which a REST write replaces, about; nil for any number.
    /// - Parameter byteCount: Of its body.
    func replacedByteLimit(of request: RESTRequest, byteCount: Int) -> Int? {
        (request.writeSizeLimit ?? defaultWriteSizeLimit).byteCount.map { $0 - byteCount }
    }

    /// What a REST write without `writeSizeLimit` is measured against (rest §4, §10).
    var defaultWriteSizeLimit: WriteSizeLimit {
        guard let json = settings[Setting.defaultWriteSizeLimit.rawValue],
            case .string(let text)? = try? Node(json: json.rawSpan)
        else { return .large }
        return WriteSizeLimit(rawValue: text.string) ?? .large
    }
}

/// The result of a REST request, from which its connection makes the HTTP response. What is large is behind a
/// reference, since results are copied.
package enum RESTCallResult: Sendable {
    /// The data at the location.
    case read(Node)
    /// The children of a node that a query selects: a worker finds them, by the index where there is one, and
    /// the result becomes a ``read(_:)``.
    indirect case filtered(Node, IndexedQuery)
    /// One page of the children that a query selects, and where it ends; nil for the last page (rest §5.5).
    indirect case page(Node, end: Window.PageEnd?)
    /// What a PUT or DELETE has left at its location.
    case written(Node)
    /// What a PUT has written, as it was sent: the client may not read the stored value. It has no ETag,
    /// which would reveal that value.
    case writtenUnread(Node)
    /// What a PATCH has written, one value for each of its writes; nil where that is what was sent.
    case updated([Node]?)
    /// The key of a new child, and its value; nil where the client may not read that.
    indirect case pushed(Key, Node?)
    /// The data, which has another ETag than the request expects (rest §7).
    case stale(Node)
    /// An error of the REST API.
    indirect case refused(RESTError)
    /// 400, with this text.
    case failed(String)
    /// An event stream is open: events follow (rest §8).
    case stream
    /// JSON that is sent as it is.
    case verbatim([UInt8])
    /// Everything as it is now; all of it is durable when this result is released.
    indirect case backup(BackupBytes)
    /// Another thread does it; the result becomes a ``report(_:)``.
    indirect case deferred(InspectionJob)
    /// What an administrator asked for.
    indirect case report(RESTReport)
    /// The body may be sent.
    case admitted
}

extension RESTCallResult {
    /// The data of the result.
    package var node: Node? {
        switch self {
        case .read(let node), .written(let node), .stale(let node), .page(let node, _): node
        case .pushed(_, let node): node
        case .filtered, .writtenUnread, .updated, .refused, .failed, .stream, .verbatim, .backup, .deferred,
            .report, .admitted:
            nil
        }
    }

    /// Whether the data counts against the limit of a read.
    package var isRead: Bool {
        switch self {
        case .read, .filtered, .page: true
        default: false
        }
    }

    /// About the bytes of memory of the data that are not the tree's: those of the list of children that a
    /// query has selected. At most 32 additions.
    package func ownedByteCount(for request: RESTRequest?) -> Int {
        switch self {
        case .read(let node), .page(let node, _):
            request?.selectsChildren == true ? node.children.entryByteCount : 0
        default: 0
        }
    }

    /// Whether the response has the ETag of ``node``, which takes O(size) to compute.
    package func wantsETag(_ request: RESTRequest) -> Bool {
        if case .stale = self { true } else { node != nil && request.returnsETag }
    }

    /// The HTTP response (rest §2, §7).
    /// - Parameters:
    ///   - request: Nil for one that was refused before it was parsed.
    ///   - update: The body of a PATCH.
    ///   - etag: The ETag of ``node``, where ``wantsETag(_:)``.
    package func response(
        to request: RESTRequest?, _ update: RESTUpdate?, etag: String?, _ context: ResponseContext
    ) -> RESTResponse {
        guard let request else {
            if case .refused(let error) = self { return .error(error, context) }
            return .error(.internalError, context)
        }
        switch self {
        case .read(let node):
            if let etag, Text(etag) == request.ifNoneMatch { return .notModified(etag: etag, context) }
            return .value(
                node, etag: etag, ownedByteCount: ownedByteCount(for: request), to: request, context)
        case .page(let node, let end):
            do throws(RESTError) {
                return .value(
                    node, cursor: try request.cursor(behind: end),
                    ownedByteCount: ownedByteCount(for: request), to: request, context)
            } catch {
                return .error(error, context)
            }
        case .written(let node), .writtenUnread(let node):
            return .value(node, etag: etag, to: request, context)
        case .updated(let nodes):
            return .update(update ?? RESTUpdate(), resolved: nodes, to: request, context)
        case .pushed(let key, _): return .name(key, etag: etag, to: request, context)
        case .stale(let node):
            return .preconditionFailed(current: node, etag: etag ?? "", to: request, context)
        case .refused(let error): return .error(error, context)
        case .failed(let text): return .error(.badRequest, text: text, context)
        case .verbatim(let bytes): return .verbatim(bytes, context)
        case .backup(let bytes): return .download(bytes, name: bytes.fileName, context)
        case .report(let report): return .report(report, to: request, context)
        case .filtered, .stream, .deferred, .admitted: return .error(.internalError, context)
        }
    }
}
