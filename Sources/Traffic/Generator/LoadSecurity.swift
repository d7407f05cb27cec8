import PandoTLS

/// How clients speak TLS with a server.
package struct LoadSecurity: Sendable {
    let context: TLSClientContext
    /// The name that its certificate must have.
    let host: String

    package init(_ context: TLSClientContext, host: String) {
        self.context = context
        self.host = host
    }
}
