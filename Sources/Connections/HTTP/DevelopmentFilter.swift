import PandoBytes
import PandoHTTP

// `--dev` listens on loopback only, and still any web page that a browser on this machine shows can reach it:
// the page may use the address itself, or a name of its own that resolves to it (DNS rebinding). Under
// `--dev` every request may read and write, and act as `owner`, so requests of such pages are refused.

/// Decides which requests a `--dev` server serves. One for each connection: a client sends the same fields
/// with nearly all its requests, so they are parsed once.
package struct DevelopmentFilter {
    private struct Names: Equatable {
        /// What the peer has addressed, and what it says that its client has.
        var received, authority: [UInt8]
        var origin, site, page: [UInt8]?
    }

    /// A class: a value of this size would be copied for the comparison with each request.
    private final class Decision {
        let names: Names
        let refusal: ForeignRequest?

        init(_ names: Names, _ refusal: ForeignRequest?) {
            self.names = names
            self.refusal = refusal
        }
    }

    private var last: Decision?

    package init() {}

    /// What Android's emulator calls the machine that it runs on. As a host it is safe: rebinding needs a
    /// name, and a page whose host is an address was served from that address. As the origin of a request to
    /// another host it is not: in other networks it is an address like any other, and what is served there is
    /// not ours. (React Native sends an `Origin` with the handshake of a WebSocket, made from the address
    /// that it connects to.)
    private static let emulatorHost = "10.0.2.2"

    /// Nil for a request of this machine's own programs and pages, and of allowed origins.
    ///
    /// All must name loopback or an allowed origin: the host that the request is addressed to, the one that a
    /// trusted proxy says its client has addressed, and the page that made it. Under
    /// `--trusted-proxy 127.0.0.1` a browser on this machine is taken for the proxy, and its pages may set
    /// `X-Forwarded-Host` as they like, but not `Host`, which is the name that was rebound. A browser names
    /// the page in `Origin`, except for what a page embeds (`<script>`, which reads JSONP): then
    /// `Sec-Fetch-Site` says that the page is from elsewhere, and `Referer`, unless the page hides it, from
    /// where. Several `Origin`s are refused. Programs send none of these, and an HTTP/1.0 client may leave
    /// out the host.
    package mutating func refusal(of head: RequestHead, allowing allowed: [WebOrigin]) -> ForeignRequest? {
        let fields = head.fields
        let (received, authority) = (head.receivedAuthorityBytes, head.authorityBytes)
        let origin = fields.bytes(of: "origin")
        // A browser sends one `Origin`. With several, it is not known which of them is the page's.
        if origin != nil, fields.count(of: "origin") > 1 {
            return .page(Text(fields.values(of: "origin").map(\.string).joined(separator: ", ")))
        }
        let site = origin == nil ? fields.bytes(of: "sec-fetch-site") : nil
        let page = origin == nil ? fields.bytes(of: "referer") : nil
        if let last, last.names.received[...] == received, last.names.authority[...] == authority,
            last.names.origin?[...] == origin,
            last.names.site?[...] == site, last.names.page?[...] == page
        {
            return last.refusal
        }
        let refusal = Self.refusal(of: head, allowed)
        let names = Names(
            received: Array(received), authority: Array(authority), origin: origin.map(Array.init),
            site: site.map(Array.init),
            page: page.map(Array.init))
        last = Decision(names, refusal)
        return refusal
    }

    private static func refusal(of head: RequestHead, _ allowed: [WebOrigin]) -> ForeignRequest? {
        let authority = head.authority
        let place = HostAndPort(authority)
        // The received authority is checked on its own only if a proxy says another one.
        if head.receivedAuthorityBytes != head.authorityBytes {
            let received = String(decoding: head.receivedAuthorityBytes, as: UTF8.self)
            guard received.isEmpty || serves(HostAndPort(received), allowed) else {
                return .host(Text(received))
            }
        }
        guard authority.isEmpty || serves(place, allowed) else { return .host(Text(authority)) }
        if let text = head.header("origin") {
            let origin = text.asciiString.flatMap { WebOrigin($0) }
            if let place, place.host == emulatorHost, origin?.isAddressed(by: place) == true { return nil }
            return mayAsk(origin, allowed) ? nil : .page(text)
        }
        let page = head.header("referer")
        switch head.header("sec-fetch-site") {
        case "same-origin", "none": return nil
        case nil where page == nil: return nil
        default:
            let origin = page.flatMap(\.asciiString).flatMap { WebOrigin(ofPage: $0) }
            return mayAsk(origin, allowed) ? nil : .page(page ?? "")
        }
    }

    private static func serves(_ place: HostAndPort?, _ allowed: [WebOrigin]) -> Bool {
        guard let place else { return false }
        return place.isLoopback || place.host == emulatorHost
            || allowed.contains { $0.isAddressed(by: place) }
    }

    private static func mayAsk(_ origin: WebOrigin?, _ allowed: [WebOrigin]) -> Bool {
        guard let origin else { return false }
        return origin.isLoopback || allowed.contains(origin)
    }
}
