import Foundation

/// A URL that keys may be fetched from: `https`, or `http` on a loopback host.
struct FetchURL: Sendable, Equatable {
    let url: URL
    let isSecure: Bool

    init?(_ text: String) {
        guard let url = URL(string: text), let host = url.host, !host.isEmpty, url.user == nil else {
            return nil
        }
        switch url.scheme?.lowercased() {
        case "https": isSecure = true
        case "http" where Self.isLoopback(host): isSecure = false
        default: return nil
        }
        self.url = url
    }

    private static func isLoopback(_ host: String) -> Bool {
        if host == "localhost" || host == "::1" || host == "[::1]" { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false).map { UInt8($0) }
        return parts.count == 4 && parts.first == 127 && !parts.contains(nil)
    }

    /// The discovery document of an issuer (OpenID Connect Discovery §4).
    init?(discoveryOf issuer: String) {
        let base = issuer.hasSuffix("/") ? String(issuer.dropLast()) : issuer
        self.init(base + "/.well-known/openid-configuration")
    }
}
