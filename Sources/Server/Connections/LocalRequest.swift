import PandoHTTP

// `--dev` listens on loopback only, and still any web page that a browser on this machine shows can reach it: it may
// name the address itself, or a name of its own that leads there (DNS rebinding). Neither may act as `owner`.

/// The names by which one connection's requests go. A client uses the same ones for all, so they are looked at once.
struct LocalNames {
    private var last: (authority: [UInt8], origin: [UInt8]?, isLocal: Bool)?

    /// Whether the request comes from this machine's own programs and pages, as far as a browser tells: it addresses a
    /// loopback name, and no page from elsewhere has made it. A page without an origin (`null`) may be anybody's.
    mutating func isLocal(_ head: RequestHead) -> Bool {
        let (authority, origin) = (head.authorityBytes, head.fields.bytes(of: "origin"))
        if let last, last.authority[...] == authority, last.origin?[...] == origin { return last.isLocal }
        let isLocal = Self.isLocal(head.authority, head.header("origin"))
        last = (Array(authority), origin.map(Array.init), isLocal)
        return isLocal
    }

    private static func isLocal(_ authority: String, _ origin: String?) -> Bool {
        guard isLoopback(host: authority[...]) else { return false }
        guard let origin else { return true }
        guard let scheme = origin.firstRange(of: "://") else { return false }
        return isLoopback(host: origin[scheme.upperBound...])
    }
}

/// - Parameter host: With or without a port; IPv6 in brackets.
private func isLoopback(host: Substring) -> Bool {
    if host.hasPrefix("[") { return host.prefix { $0 != "]" } == "[::1" }
    var name = host.prefix { $0 != ":" }.lowercased()[...]
    if name.hasSuffix(".") { name.removeLast() }
    // RFC 6761 §6.3: names below it are loopback too.
    if name == "localhost" || name.hasSuffix(".localhost") { return true }
    let parts = name.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
}
