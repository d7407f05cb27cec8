import PandoBytes
import PandoEngine
import PandoREST
import PandoRules
import PandoTime
import PandoTree
import PandoWire

@testable import PandoConnections
@testable import PandoDatabase

// Actions and messages as short text, so that a table of cases can be read. Exhaustive: a new case must say
// how it is shown.

extension ConnectionAction {
    /// What is to be done, without the bytes of ``write(_:)``, which the driver reads itself.
    var summary: String {
        switch self {
        case .write(let bytes): "write \(bytes.count) bytes"
        case .writeShared(let bytes): "write \(bytes.count) shared bytes"
        case .closeAfterFlush: "close after flush"
        case .close: "close"
        case .reset: "reset"
        case .verify(let token): "verify \(token.string)"
        case .parse(let bytes): "parse \(bytes.count) bytes"
        case .inflate(let bytes): "inflate \(bytes.count) bytes"
        case .encode(let message): "encode \(message.requestNumber.map { "reply \($0)" } ?? "push")"
        case .measure(_, let query, let byteLimit, let wantsETag):
            "measure" + (query == nil ? "" : " query") + (byteLimit.map { " up to \($0)" } ?? "")
                + (wantsETag ? " with ETag" : "")
        case .makeWindow: "make window"
        case .readBody(let bytes, let isGzip, let request):
            "read body of \(bytes.count) bytes" + (isGzip ? ", gzip, for " : " for ") + request.summary
        case .cancelBody: "cancel body"
        case .inspect: "inspect"
        case .abandonJobs: "abandon jobs"
        case .releaseBody(let bytes): "release a body of \(bytes.count) bytes"
        case .release(let update): "release an update of \(update.writes.count) paths"
        case .nextTurn: "next turn"
        case .wake(let time): time.map { "wake at \(shown($0 - testStart))" } ?? "cancel wake"
        case .expire(let time): time.map { "expire at \($0)" } ?? "cancel expiry"
        case .recheck: "recheck"
        case .countLimit(let limit): "count limit \(limit)"
        case .countDelay(let limit): "count delay \(limit)"
        case .http(let action): action.summary
        case .polling(let action): action.summary
        case .handover(let action): action.summary
        }
    }
}

/// Seconds as a test wrote them.
private func shown(_ duration: Duration) -> String {
    let milliseconds = Int(duration / .milliseconds(1))
    return milliseconds % 1000 == 0 ? "\(milliseconds / 1000)" : "\(Double(milliseconds) / 1000)"
}

extension HTTPAction {
    var summary: String {
        switch self {
        case .upgrade(let request, let rest):
            "upgrade" + (request.joins ? " joining" : "")
                + (rest.isEmpty ? "" : ", \(rest.count) bytes follow")
        case .move(let moved, let loop):
            "move to loop \(loop)" + (moved.rest.isEmpty ? "" : ", \(moved.rest.count) bytes follow")
        case .startPolling(let start, let host, let hasCertificate):
            "start polling, callback \(text(start.callback)), host \(text(host))"
                + (hasCertificate ? ", administrator" : "")
        case .poll(let poll, _): "poll \(poll.serial) of \(poll.address.id.rawValue)"
        case .disconnectPolling(let address): "disconnect \(address.id.rawValue)"
        case .pollIsLost(let session): "poll is lost of \(session.rawValue)"
        case .hurryPoll(let session): "hurry poll of \(session.rawValue)"
        case .delivery(let session, let sent, let delivery, let isLast):
            "\(delivery) \(sent.numbers) of \(session.rawValue)" + (isLast ? "" : ", more in doubt")
        case .reportForeign: "report foreign request"
        case .reportPlainClient: "report plain client"
        case .countRefusal: "count refusal"
        case .keepReserved: "keep reserved"
        case .logAccess(let request): "log \(request.method) \(request.path) \(request.status)"
        }
    }
}

extension LongPollingAction {
    var summary: String {
        switch self {
        case .holdPoll(let connection): "hold on \(connection.rawValue)"
        case .releasePoll(let connection): "release \(connection.rawValue)"
        case .answer(let answer, let connection):
            "to \(connection.rawValue): " + shownScript(answer.scripts.map { text($0.array) }.joined())
        case .respondClosed(let connection): "to \(connection.rawValue): closed"
        case .refuse(let error, let connection): "to \(connection.rawValue): malformed \(error.parameter)"
        case .reset(let connection): "reset \(connection.rawValue)"
        case .loseDeliveries(let connection): "lose deliveries on \(connection.rawValue)"
        case .answerAtEndOfTick: "answer at end of tick"
        case .noPollWaits: "no poll waits"
        case .pollWaits: "poll waits"
        case .remove: "remove"
        }
    }
}

/// A script on one line, without the functions that the first response of a session defines.
private func shownScript(_ script: String) -> String {
    let lines = script.split(separator: "\n").filter { !$0.hasPrefix("function ") && !$0.isEmpty }
    return lines.joined(separator: " ")
}

extension HandoverAction {
    var summary: String {
        switch self {
        case .acknowledged(let polling): "acknowledged to \(polling.rawValue)"
        case .webSocketIsGone(let polling): "WebSocket is gone, to \(polling.rawValue)"
        case .leaveFormer: "leave former"
        case .refuse(let webSocket): "refuse \(webSocket.rawValue)"
        case .move(let webSocket): "move to \(webSocket.rawValue)"
        case .forgetFormer: "forget former"
        }
    }
}

// MARK: - Messages to the databases

extension DatabaseMessage {
    var summary: String {
        switch self {
        case .open(_, let request): "open \(request.namespace ?? "default")"
        case .request(let request):
            "request \(request.number) \(request.action.summary)" + request.credential.summary
                + (request.signIn > 0 ? ", sign-in \(request.signIn)" : "")
        case .credentialChanged(_, let credential, _): "identity" + credential.summary
        case .credentialEnded(_, let number): "credential \(number) ended"
        case .revoked(_, let signIns, _): "revoked \(signIns.sorted())"
        case .rest(_, let call, _): call.summary
        case .reply(_, let reply, _): reply.summary
        case .windowMark: "window mark"
        case .lagging: "lagging"
        case .caughtUp: "caught up"
        case .closed: "closed"
        case .listenChecks, .prepared, .indexed, .continueEnding, .rules, .storage, .outputsDelivered, .drain,
            .statistics,
            .usage, .backup, .trees:
            "not of a connection"
        }
    }
}

extension Credential {
    var summary: String {
        isAdmin ? " as administrator" : uid.map { " as \($0.string)" } ?? ""
    }
}

extension Action {
    var summary: String {
        switch self {
        case .statistics: "statistics"
        case .listen(let listen, _): "listen \(listen.path)"
        case .unlisten(let path, _, _): "unlisten \(path)"
        case .get(let path, _): "get \(path)"
        case .put(let write): "put \(write.target.path) \(json(write.draft.node))"
        case .transaction(let write, _, _): "transaction \(write.target.path)"
        case .merge(let path, _): "merge \(path)"
        case .onDisconnectPut(let write): "onDisconnect put \(write.target.path)"
        case .onDisconnectMerge(let path, _): "onDisconnect merge \(path)"
        case .onDisconnectCancel(let target): "onDisconnect cancel \(target.path)"
        case .authenticate, .unauthenticate, .appCheck, .dropAppCheck, .unknown, .invalid:
            "an action that needs no database"
        }
    }
}

extension SessionReply {
    var summary: String {
        switch self {
        case .ok(let number): "reply \(number) ok"
        case .listeningWithoutIndex(let number): "reply \(number) ok, no index"
        case .authenticated(let number, let auth, let expires):
            "reply \(number) authenticated \(auth?.string ?? "null")" + (expires.map { " until \($0)" } ?? "")
        case .unauthenticated(let number): "reply \(number) unauthenticated"
        case .authenticationFailed(let number, let isExpired, let reason):
            "reply \(number) " + (isExpired ? "expired_token" : "invalid_token") + ": \(reason)"
        case .authenticationUnavailable(let number, let reason): "reply \(number) unavailable: \(reason)"
        case .finished: "finished"
        case .unknownAction(let number): "reply \(number) unknown action"
        case .tooBig(let number): "reply \(number) too big"
        case .diskFull(let number): "reply \(number) disk full"
        case .contested(let number): "reply \(number) contested"
        case .limitExceeded(let number, let limit): "reply \(number) \(limit.text)"
        case .invalid(let number, _): "reply \(number) invalid"
        }
    }
}

extension RESTCall {
    var summary: String {
        let place = namespace.map { " in \($0)" } ?? ""
        return switch action {
        case .refuse(let error): "refuse \(error.status.code) \(error.text)" + place
        case .admit(let request, let credential): "admit \(request.summary)" + credential.summary + place
        case .data(let request, let body, let credential):
            request.summary + (body.map { " " + $0.summary } ?? "") + credential.summary + place
        case .rules(let request, let publication, let credential):
            "\(request.methodText) rules \(text(publication.source))" + credential.summary + place
        case .setting(let setting, let request, let value, let credential):
            "\(request.methodText) \(setting?.rawValue ?? "no setting") \(text(value))" + credential.summary
                + place
        case .listDatabases(let credential): "list databases" + credential.summary
        case .listDenials(let credential): "list denials" + credential.summary
        case .listChildren(_, let credential): "list children" + credential.summary
        case .history(_, let credential): "history" + credential.summary
        case .evaluate(_, let credential): "evaluate" + credential.summary
        case .backup(let credential): "backup" + credential.summary
        }
    }
}

extension RESTRequest {
    var methodText: String { "\(method)".uppercased() }

    var summary: String {
        guard case .data(let target) = location else { return "\(methodText) \(location)" }
        return "\(methodText) \(target.path)" + (wantsStream ? " stream" : "")
    }
}

extension RESTBody {
    var summary: String {
        switch self {
        case .value(let draft): shortened(json(draft.node))
        case .update(let update):
            zip(update.names, update.writes).map { "\($0.string)=\(json($1.draft.node))" }
                .joined(separator: " ")
        }
    }
}

// MARK: - Bytes

func json(_ node: Node) -> String {
    var bytes: [UInt8] = []
    bytes.append(json: node)
    return text(bytes)
}

func text(_ bytes: some Collection<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }

/// A long text as its length: what a test says of it.
func shortened(_ text: String, to limit: Int = 120) -> String {
    text.utf8.count <= limit ? text : "\(text.utf8.count) bytes"
}
