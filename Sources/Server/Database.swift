import PandoEngine

/// One namespace: its name, its number in the journal, and its state machine.
///
/// A class, so that a command changes the engine where it is: looking it up copies a reference.
/// `@unchecked Sendable`: made by recovery, then handed to the database thread and touched by nobody else.
final class Database: @unchecked Sendable {
    let id: UInt32
    let name: String
    var engine: Engine
    /// `/.settings/<name>.json`, as JSON (rest-api §10).
    var settings: [String: [UInt8]] = [:]

    init(id: UInt32, name: String, engine: Engine) {
        self.id = id
        self.name = name
        self.engine = engine
    }
}

/// Names of namespaces (wire-protocol §1.3).
enum NamespaceName {
    /// Bytes of a name; a label of a host name has at most 63 (RFC 1035 §2.3.4), Firebase's database ids fit in.
    static let byteLimit = 63
    /// The one that exists without being made.
    static let standard = "default"

    /// The name in its one spelling: lower case; nil when it cannot be one.
    static func canonical(_ text: String) -> String? {
        let name = text.lowercased()
        guard !name.isEmpty, name.utf8.count <= byteLimit else { return nil }
        let isLegal = name.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "-"), UInt8(ascii: "_"):
                true
            default: false
            }
        }
        return isLegal ? name : nil
    }

    /// The first label of a host of three labels or more, without its port; nil for `localhost:9000` and addresses.
    ///
    /// - Parameter count: Labels that a host must have to name a database: three over WebSocket, where clients add `ns`
    ///   otherwise; two over REST (rest-api §1.2).
    static func fromHost(_ host: String, labels count: Int = 3) -> String? {
        guard !host.hasPrefix("[") else { return nil }
        let name = host.prefix { $0 != ":" }
        let labels = name.split(separator: ".", omittingEmptySubsequences: false)
        guard labels.count >= count, labels.allSatisfy({ !$0.isEmpty }) else { return nil }
        // An IPv4 address is no name.
        guard !labels.allSatisfy({ $0.allSatisfy(\.isNumber) }) else { return nil }
        return String(labels[0])
    }
}
