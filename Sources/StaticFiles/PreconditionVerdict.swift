import PandoBytes
import PandoHTTP

/// What the conditions of a GET or HEAD say of a representation that exists (RFC 9110 §13.2.2).
///
/// Files have no date of their last change, and no ranges. So `If-Modified-Since`, `If-Unmodified-Since` and
/// `If-Range` are ignored (RFC 9110 §13.1.3, RFC 9110 §13.1.4, RFC 9110 §13.1.5).
enum PreconditionVerdict {
    /// The client gets the representation.
    case deliver
    /// `If-None-Match` names it: 304.
    case notModified
    /// `If-Match` names others only: 412.
    case failed

    /// - Parameters:
    ///   - fields: Of the request.
    ///   - etag: Of the representation: a strong tag in ASCII, with its quotation marks and without commas.
    /// - Complexity: O(bytes of the two fields).
    init(_ fields: HeaderFields, etag: String) {
        let required = fields.values(of: "if-match")
        if !required.isEmpty, !Self.names(etag, in: required, weakly: false) {
            self = .failed
        } else if Self.names(etag, in: fields.values(of: "if-none-match"), weakly: true) {
            self = .notModified
        } else {
            self = .deliver
        }
    }

    /// Whether lists of tags have this one, or `*`.
    /// - Parameter weakly: By weak comparison (RFC 9110 §8.8.3.2), in which `W/"a"` is `"a"`; by strong
    ///   comparison a weak tag is never ours.
    private static func names(_ etag: String, in values: [Text], weakly: Bool) -> Bool {
        values.contains { value in
            // Ours are ASCII. The whole list is malformed where another one is not.
            value.asciiString?.split(separator: ",").contains { element in
                var tag = element.drop { $0 == " " || $0 == "\t" }
                while let last = tag.last, last == " " || last == "\t" { tag.removeLast() }
                if weakly, tag.hasPrefix("W/") { tag = tag.dropFirst(2) }
                return tag == "*" || tag == etag
            } ?? false
        }
    }
}
