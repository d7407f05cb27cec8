import PandoBytes

/// Why a request to a `--dev` server is refused.
package enum ForeignRequest: Hashable, Sendable {
    /// `Host` names neither loopback nor an allowed origin.
    case host(Text)
    /// The page that made it is from neither; empty where the page hides where it is from.
    case page(Text)

    /// The text of the answer, and of the log.
    package var reason: String {
        switch self {
        case .host(let host):
            "--dev serves this machine only, and the host \(quoted(host)) is no loopback name; start the server with --allow-origin scheme://host[:port] to allow it"
        case .page("null"), .page(""):
            "--dev serves programs and pages of this machine only, and a web page without an origin made this "
                + "request; start the server with --allow-origin scheme://host[:port] to allow it"
        case .page(let origin):
            "--dev serves programs and pages of this machine only, and a page from \(quoted(origin)) made this request; "
                + "start the server with --allow-origin scheme://host[:port] to allow it"
        }
    }

    /// Bytes of a client's text that are repeated.
    private static let quotedByteLimit = 200

    /// As JSON, so that no text is taken for another line of the log.
    private func quoted(_ text: Text) -> String {
        var json: [UInt8] = []
        json.append(json: text.prefix(byteCount: Self.quotedByteLimit))
        return String(decoding: json, as: UTF8.self)
    }
}
