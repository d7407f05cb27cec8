import PandoDatabase
import PandoREST
import PandoTree

/// What a REST response says.
enum RESTReply {
    case data(Value)
    case ok
    /// The key of the new child.
    case pushed(String)
    case denied
    case stale
    case diskFull
    /// Events follow.
    case stream
    case failed(String)

    /// What the databases have released.
    init(_ result: RESTCallResult) {
        switch result {
        case .read(let node), .page(let node, _), .written(let node), .writtenUnread(let node):
            self = .data(node.reference)
        case .filtered(let node, let query): self = .data(query.result(over: node).reference)
        case .updated: self = .ok
        case .pushed(let key, _): self = .pushed(key.text.string)
        case .stale: self = .stale
        case .refused(.permissionDenied), .refused(.unauthorized): self = .denied
        case .refused(.diskFull): self = .diskFull
        case .refused(let error): self = .failed(error.text)
        case .failed(let text): self = .failed(text)
        case .stream: self = .stream
        case .verbatim(let bytes): self = (try? Value(json: bytes)).map { .data($0) } ?? .ok
        case .backup, .deferred, .report, .admitted: self = .failed("no client asks for this")
        }
    }

    /// Why a response that a client has read does not say this; nil where it does.
    func contradiction(of response: HTTPResponse) -> String? {
        let isRight =
            switch self {
            case .data(let value): response.status == 200 && isBody(value, of: response)
            case .ok: response.status == 200
            case .pushed(let key):
                response.status == 200 && isBody(.object(["name": .string(key)]), of: response)
            case .denied: response.status == 401
            case .stale: response.status == 412
            case .diskFull: response.status == 503
            case .stream: response.status == 200 && response.isStream
            case .failed: response.status >= 400
            }
        guard isRight else {
            return
                "read \(response.status) \(String(decoding: response.body, as: UTF8.self)), sent was \(self)"
        }
        if case .data(let value) = self, let tag = response.fields["etag"],
            tag != ValueHash.tag(of: value.pruned)
        {
            return "read the ETag \(tag) of \(value.json)"
        }
        return nil
    }

    private func isBody(_ value: Value, of response: HTTPResponse) -> Bool {
        guard let body = try? Value(json: response.body) else { return false }
        return body.pruned == value.pruned
    }
}

extension Node {
    fileprivate var reference: Value {
        var json: [UInt8] = []
        json.append(json: self)
        guard let value = try? Value(json: json) else { preconditionFailure("a node that is no JSON") }
        return value
    }
}
