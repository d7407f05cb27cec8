import PandoHTTP

extension RequestHead {
    /// Whether the certificate of the connection counts for this request (`--tls-client-ca`).
    ///
    /// A browser shows its certificate to the server in what any web page asks for, also in a form, a `<script>`
    /// (JSONP) or a WebSocket, which need no permission of the server. So it counts for programs, which send none of
    /// these fields, and in a browser for pages of this server and for what is typed as an address.
    package var mayUseCertificate: Bool {
        switch header("sec-fetch-site") {
        case "same-origin", "none": true
        case nil: header("origin") == nil && header("referer") == nil
        default: false
        }
    }
}
