import PandoReactor
import PandoTLS

extension LoadTarget {
    /// Connects, through TLS where the target has it. As
    /// ``Connector/connect(to:on:options:tls:timeout:makeDelegate:onFailure:)``.
    /// - Throws: ``SocketError`` if the system makes no socket, or has no memory for TLS.
    package func connect(
        on loop: EventLoop, options: SocketOptions = SocketOptions(),
        makeDelegate: @escaping (Channel) -> any ChannelDelegate, onFailure: @escaping (SocketError) -> Void
    ) throws(SocketError) {
        try Connector.connect(
            to: address, on: loop, options: options, tls: try makeTLS(), makeDelegate: makeDelegate,
            onFailure: onFailure)
    }

    private func makeTLS() throws(SocketError) -> TLSConnection? {
        guard let security else { return nil }
        do throws(TLSError) {
            return try TLSConnection(client: security.context, host: security.host)
        } catch {
            throw SocketError(code: Self.outOfMemory, attempt: "begin TLS with \(address)")
        }
    }

    /// ENOMEM: why OpenSSL makes no connection.
    private static let outOfMemory: Int32 = 12
}
