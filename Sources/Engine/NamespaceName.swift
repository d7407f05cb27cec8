import PandoBytes

/// Names of namespaces (realtime §1.3).
package enum NamespaceName {
    /// Bytes of a name. A label of a host name has at most 63 (RFC 1035 §2.3.4); Firebase's database ids are
    /// shorter.
    package static let byteLimit = 63
    /// The namespace that always exists.
    package static let standard = "default"

    /// A name as a client has spelled it: the same text, where it may be a name; else one that is none.
    package static func received(_ text: Text) -> String {
        guard text.utf8Count <= byteLimit, let name = text.asciiString else { return "\u{FFFD}" }
        return name
    }

    /// The canonical spelling of a name, in lower case; nil for a text that is not a valid name.
    package static func canonical(_ text: String) -> String? {
        // Looked at as bytes: a client may have sent any text of any length.
        guard !text.utf8.isEmpty, text.utf8.count <= byteLimit else { return nil }
        let isLegal = text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                true
            default: false
            }
        }
        return isLegal ? text.lowercased() : nil
    }

    /// Whether two names, as clients spell them, mean the same namespace; nil stands for ``standard``.
    package static func areSame(_ left: String?, _ right: String?) -> Bool {
        canonical(left ?? standard) == canonical(right ?? standard)
    }

    /// A host name with fewer labels names no namespace.
    private static let hostLabelCount = 3

    /// The namespace that a `Host` header names: the first label of a host name of three labels or more. The
    /// query parameter `ns` takes precedence; where neither names one, ``standard`` is meant (realtime
    /// §1.3, rest §1.2).
    /// - Parameter host: With or without a port, and with or without the dot of an absolute name (RFC 1034
    ///   §3.1).
    /// - Returns: The label as it was spelled; nil for `localhost:9000`, `example.org` and addresses.
    package static func fromHost(_ host: String) -> String? {
        guard !host.hasPrefix("[") else { return nil }
        var name = host.prefix { $0 != ":" }
        if name.hasSuffix(".") { name.removeLast() }
        let labels = name.split(separator: ".", omittingEmptySubsequences: false)
        guard labels.count >= hostLabelCount, labels.allSatisfy({ !$0.isEmpty }) else { return nil }
        // An IPv4 address has no namespace.
        guard !labels.allSatisfy({ $0.allSatisfy(\.isNumber) }) else { return nil }
        return String(labels[0])
    }
}
