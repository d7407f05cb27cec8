import PandoEngine
import PandoHTTP

/// The client of a connection's requests, as a trusted proxy and the `Host` field present it.
struct RequestClient {
    private var filter = DevelopmentFilter()
    /// A client addresses one host, so its name is parsed once.
    private var hostName: (host: [UInt8], namespace: String?)?
    /// Of the last request, what its trusted proxy says of its client; empty for all others.
    private(set) var forwardedFor: [UInt8] = []

    /// Notes what the head of a request says of its client, where the peer is a trusted proxy.
    /// - Returns: Whether the client speaks TLS, with this server or with the proxy.
    mutating func note(_ head: RequestHead, _ context: inout ConnectionContext) -> Bool {
        guard context.socket.isTrustedProxy else { return context.socket.isSecure }
        forwardedFor = head.forwardedFor
        guard let isSecure = head.forwardedIsSecure else { return context.socket.isSecure }
        if !isSecure { context.append(.http(.reportPlainClient)) }
        return isSecure
    }

    /// A request comes of which nothing is known: its client need not be that of the one before.
    mutating func forget() { forwardedFor = [] }

    /// Why a `--dev` server does not serve the request; nil where it does, and for other servers.
    mutating func refusal(of head: RequestHead, _ settings: borrowing ConnectionSettings) -> ForeignRequest? {
        settings.isDevelopment ? filter.refusal(of: head, allowing: settings.allowedOrigins) : nil
    }

    /// The database that a host names.
    mutating func namespace(fromHost host: ArraySlice<UInt8>) -> String? {
        if let hostName, hostName.host[...] == host { return hostName.namespace }
        let namespace = NamespaceName.fromHost(String(decoding: host, as: UTF8.self))
        hostName = (Array(host), namespace)
        return namespace
    }
}
