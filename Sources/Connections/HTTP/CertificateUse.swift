import PandoHTTP

extension RequestHead {
    /// Whether the certificate of the connection counts for this request (`--tls-client-ca`).
    ///
    /// A browser shows its certificate to the server in what any web page asks for, also in a form, a
    /// `<script>` or a WebSocket, which need no permission of the server. So it counts for programs, which
    /// send none of these fields, and in a browser for pages of this server and for what is typed as an
    /// address.
    ///
    /// A page gets to see what a script brings, and an old browser may send none of the fields with the
    /// request for one.
    /// - Parameter isScript: The response is a script: JSONP, or long polling. Then only the word of the
    ///   browser counts that a page of this server asks.
    package func mayUseCertificate(inScript isScript: Bool) -> Bool {
        switch header("sec-fetch-site") {
        case "same-origin": true
        case "none": !isScript
        case nil: !isScript && header("origin") == nil && header("referer") == nil
        default: false
        }
    }
}
