import PandoBytes
import PandoDatabase
import PandoIdentity
import PandoREST
import PandoRules
import PandoStorage
import PandoTime
import PandoTree

/// A request whose response is due: who sent it, and what it asks the databases. A class, because it is
/// passed from stage to stage: its parts are counted once.
final class PendingRequest {
    /// Nil for one that was refused before it was understood.
    let request: RESTRequest?
    var response: ResponseContext
    let namespace: String?
    /// The body of a PATCH; nil for other methods.
    private(set) var update: RESTUpdate?
    /// When its head was there.
    let began: MonotonicTime
    /// The client's identity, once that is known; nil for a request without a token.
    private(set) var identity: Identity?
    /// As whose its connection and its writes count; nil for a client that is not signed in, or has no limit.
    private(set) var limitedUser: LimitedUser?
    /// Its token is an administrator's, who has no limits.
    private(set) var isAdministrators = false
    /// Its connection has an administrator's certificate, and that counts for it.
    var hasCertificate = false
    /// Bytes of its body that count as written, where it is inflated elsewhere: more may follow. nil for any
    /// other.
    var countedByteCount: Int?
    /// Its body may be large.
    var isAdmitted = false
    /// The client sends the body behind a `100 Continue` (RFC 9110 §10.1.1).
    var expectsContinue = false
    /// Of the data that the response holds until it is printed; nil where that is little.
    private(set) var pin: SnapshotPin?
    /// What is wrong with its body, which is not read then.
    var bodyProblem: RESTError?

    init(
        _ response: ResponseContext, _ request: RESTRequest? = nil, namespace: String? = nil,
        began: MonotonicTime
    ) {
        self.request = request
        self.response = response
        self.namespace = namespace
        self.began = began
        // A read with a limit, or of keys alone, holds little of its location.
        if let request, request.method.isRead, !request.isShallow, request.query?.limit == nil {
            pin = SnapshotPin()
        }
    }

    /// As whom it acts.
    var credential: Credential { identity?.credential ?? .anonymous }

    // MARK: Who sent it

    /// - Parameter result: On the token of the request; nil where there is none.
    func identify(_ result: VerificationResult?) throws(RESTError) {
        guard let request else { return }
        switch result {
        case nil:
            // For administrators only.
            guard request.authVariableOverride == nil else { throw .unauthorized }
            identity = nil
        case .accepted(var identity):
            limitedUser = LimitedUser(identity)
            isAdministrators = identity.credential.isAdmin
            do throws(NotAnAdministrator) {
                identity.credential = try identity.credential(asking: request.authVariableOverride)
            } catch {
                throw .unauthorized
            }
            self.identity = identity
        case .refused(.expired): throw .tokenExpired
        case .refused(.keysUnavailable): throw .unavailable
        case .refused(.tooManyFailures): throw .tooManyFailures
        case .refused: throw request.credential.refusal
        }
    }

    /// A large body may take longer than the token is valid.
    func checkExpiry(_ wallSeconds: Int64) throws(RESTError) {
        if let end = identity?.validUntil, end <= wallSeconds { throw .tokenExpired }
    }

    /// Only an administrator learns anything of settings, not even whether they are there (rest §10).
    /// - Parameter isDevelopment: `--dev`, where every client may have the names of the databases.
    func checkPlace(isDevelopment: Bool = false) throws(RESTError) {
        switch request?.location {
        // Who may read a location may see its structure (rest §10).
        case nil, .data, .inspect(.children): break
        case .inspect(.databases) where isDevelopment: break
        case .rules, .settings, .inspect: guard credential.isAdmin else { throw .unauthorized }
        }
    }

    // MARK: What it asks

    /// Paths of a PATCH from which on its body is freed by another thread: fewer take some hundred
    /// microseconds.
    static let largeUpdateCount = 4096

    /// Removes the body of a PATCH of many paths; nil for others.
    func takeLargeUpdate() -> RESTUpdate? {
        update.map { $0.writes.count < Self.largeUpdateCount } ?? true ? nil : update.take()
    }

    /// Whether to print the response may take longer than a few microseconds.
    func isLong(_ result: RESTCallResult) -> Bool {
        let byteLimit = 4 << 10
        return switch result {
        case .read(let node), .page(let node, _), .written(let node), .writtenUnread(let node),
            .stale(let node):
            node.isHeavier(than: byteLimit)
        case .updated:
            update.map { update in
                update.writes.count > 64
                    || update.writes.contains { $0.draft.node.isHeavier(than: byteLimit) }
            } ?? false
        case .verbatim(let bytes): bytes.count > byteLimit
        case .filtered, .report, .backup: true
        case .pushed, .refused, .failed, .stream, .deferred, .admitted: false
        }
    }

    /// What it asks of the server itself; nil for what it asks the databases.
    func serverQuestion() throws(RESTError) -> ServerQuestion? {
        guard let request, request.method.isRead, case .inspect(.server(let page)) = request.location
        else { return nil }
        try request.checkConditions()
        return ServerQuestion(page, request)
    }

    /// A write whose body is data.
    func write(_ body: RESTBody) throws(RESTError) -> RESTCall.Action {
        guard let request else { throw .internalError }
        try request.checkConditions()
        if case .update(let update) = body { self.update = update }
        return .data(request, body, credential)
    }

    /// A question about rules whose body another thread has read.
    func evaluation(_ question: EvaluationRequest) throws(RESTError) -> RESTCall.Action {
        guard let request else { throw .internalError }
        try request.checkConditions()
        return .evaluate(question, credential)
    }

    /// Everything but a write whose body is data.
    func call(_ bytes: [UInt8]) throws(RESTError) -> RESTCall.Action {
        guard let request else { throw .internalError }
        try request.checkConditions()
        switch request.location {
        case .data where request.method == .delete: return try write(.value(Draft(.empty)))
        case .data: return .data(request, nil, credential)
        case .rules:
            let publication = RulesPublication(
                uid: identity?.subject?.string ?? "", keyID: identity?.keyID?.string ?? "", source: bytes)
            return .rules(request, publication, credential)
        case .settings(let setting): return .setting(setting, request, value: bytes, credential)
        case .inspect(.databases): return .listDatabases(credential)
        case .inspect(.denials): return .listDenials(credential)
        case .inspect(.children):
            return .listChildren(try ChildListing(request, mayMeasure: isAdministrators), credential)
        case .inspect(.backup): return .backup(credential)
        case .inspect(.history):
            let parameters = try HistoryParameters(
                request, usualLimit: HistoryLimits.usualWriteCount, highestLimit: HistoryLimits.writeCount)
            return .history(parameters, credential)
        case .inspect(.evaluate):
            return .evaluate(try EvaluationRequest(reading: bytes.rawSpan), credential)
        case .inspect(.server), .inspect(nil): throw .invalidPath
        }
    }
}
