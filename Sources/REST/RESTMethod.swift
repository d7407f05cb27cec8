import PandoBytes
import PandoHTTP

/// What a REST request does (rest §2).
package enum RESTMethod: Equatable, Sendable {
    case get, head, put, post, patch, delete, options

    /// GET and HEAD.
    package var isRead: Bool { self == .get || self == .head }
    package var isWrite: Bool { self == .put || self == .post || self == .patch || self == .delete }
}

extension RESTMethod {
    init(_ head: RequestHead, _ parameters: QueryString, _ location: RESTLocation) throws(RESTError) {
        let allowed: RESTError.Methods =
            switch location {
            case .data(let target): target.isPriority ? .priority : .data
            case .settings(.functionTriggers): .triggers
            case .rules, .settings: .settings
            case .inspect(.evaluate): .evaluate
            case .inspect: .inspect
            }
        switch head.method {
        case .get: self = .get
        case .head: self = .head
        case .put: self = .put
        case .patch: self = .patch
        case .delete: self = .delete
        case .options: self = .options
        case .post: self = try Self.overriding(head, parameters)
        case .other: throw .methodNotAllowed(allowed: allowed)
        }
        // As which the official CLI sends them (§10).
        if allowed == .triggers, self == .post { self = .put }
        let isAllowed =
            switch allowed {
            case .data: true
            case .priority: self != .post && self != .patch
            case .settings, .triggers: self == .put || !isWrite
            case .inspect: !isWrite
            case .evaluate: self == .post || self == .options
            }
        guard isAllowed else { throw .methodNotAllowed(allowed: allowed) }
    }

    /// The method that a POST stands for (§1.4). The header has precedence over the parameter.
    private static func overriding(_ head: RequestHead, _ parameters: QueryString) throws(RESTError) -> Self {
        guard head.fields.count(of: "x-http-method-override") <= 1 else { throw .unknownMethodOverride }
        let parameter = parameters.pairs.first {
            $0.name.asciiString?.lowercased() == "x-http-method-override"
        }
        guard let name = head.header("x-http-method-override") ?? parameter.map({ $0.value ?? "" }) else {
            return .post
        }
        switch name.asciiString?.uppercased() {
        case "GET": return .get
        case "PUT": return .put
        case "PATCH": return .patch
        case "DELETE": return .delete
        case "POST": return .post
        default: throw .unknownMethodOverride
        }
    }
}
