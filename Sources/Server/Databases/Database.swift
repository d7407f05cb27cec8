import PandoBytes
import PandoEngine
import PandoREST
import PandoRules
import PandoTree

/// One namespace: its name, its number in the journal, and its state machine.
///
/// A class, so that a command changes the engine where it is: looking it up copies a reference.
/// `@unchecked Sendable`: made by recovery, then touched only by whoever is inside the ``DatabaseExecutor``.
final class Database: @unchecked Sendable {
    let id: UInt32
    let name: String
    var engine: Engine
    /// Whom it lets in by itself: by stored rules, or, without any, as the server was started.
    var storedAccess: Access { didSet { updateAccess() } }
    /// The source of stored rules that this version cannot read: kept, for one that can.
    var invalidRules: [UInt8]?
    /// Rules of a file: they rule over stored ones.
    var fileRules: Ruleset? { didSet { updateAccess() } }
    /// `/.settings/<name>.json`, as JSON (rest §10).
    var settings: [String: [UInt8]] = [:] {
        didSet { defaultWriteSizeLimit = Self.writeSizeLimit(settings["defaultWriteSizeLimit"]) }
    }
    /// What a REST write without `writeSizeLimit` is measured against (rest §4).
    private(set) var defaultWriteSizeLimit = WriteSizeLimit.large

    init(id: UInt32, name: String, access: Access, fileRules: Ruleset? = nil) {
        self.id = id
        self.name = name
        storedAccess = access
        self.fileRules = fileRules
        engine = Engine(access: fileRules.map(Access.loaded) ?? access)
    }

    /// True when nothing but the way the server was started says who gets in.
    var isUnruled: Bool {
        if case .loaded = engine.access { false } else { true }
    }

    private func updateAccess() {
        engine.access = fileRules.map(Access.loaded) ?? storedAccess
    }

    private static func writeSizeLimit(_ json: [UInt8]?) -> WriteSizeLimit {
        guard let json, case .string(let text)? = try? Node(json: json.rawSpan) else { return .large }
        return WriteSizeLimit(rawValue: text.string) ?? .large
    }
}

/// Names of namespaces (realtime §1.3).
enum NamespaceName {
    /// Bytes of a name; a label of a host name has at most 63 (RFC 1035 §2.3.4), Firebase's database ids fit
    /// in.
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

    /// Whether two names, as clients spell them, are of one database; nil stands for the one that exists
    /// without being made.
    static func areSame(_ left: String?, _ right: String?) -> Bool {
        canonical(left ?? standard) == canonical(right ?? standard)
    }

    /// Labels that a host has at least where it names a database.
    private static let hostLabelCount = 3

    /// The first label of a host of three labels or more, without its port; nil for `localhost:9000`,
    /// `example.org` and addresses. Asked only where `ns` names no database; where neither does, ``standard``
    /// is meant (realtime §1.3, rest §1.2).
    static func fromHost(_ host: String) -> String? {
        guard !host.hasPrefix("[") else { return nil }
        let name = host.prefix { $0 != ":" }
        let labels = name.split(separator: ".", omittingEmptySubsequences: false)
        guard labels.count >= hostLabelCount, labels.allSatisfy({ !$0.isEmpty }) else { return nil }
        // An IPv4 address is no name.
        guard !labels.allSatisfy({ $0.allSatisfy(\.isNumber) }) else { return nil }
        return String(labels[0])
    }
}
