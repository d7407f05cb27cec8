import Logging
import PandoBytes
import PandoHTTP
import PandoIdentity
import PandoServer
import PandoTree

/// One option of `pando serve`, whichever way it was given: `--in-flight-limit`, `PANDO_IN_FLIGHT_LIMIT`, or
/// `"in-flight-limit"` in the configuration file.
struct Setting: Sendable {
    /// As it is spelled after `--` and in the file.
    let name: String
    /// Takes the text of the value; false when it is none.
    let apply: @Sendable (inout Configuration, String) -> Bool

    var environmentName: String {
        "PANDO_" + name.uppercased().map { $0 == "-" ? "_" : String($0) }.joined()
    }

    init(_ name: String, text apply: @escaping @Sendable (inout Configuration, String) -> Bool) {
        self.name = name
        self.apply = apply
    }

    init(_ name: String, flag set: @escaping @Sendable (inout Configuration, Bool) -> Void) {
        self.init(
            name,
            text: { configuration, text in
                guard let value = Bool(text) else { return false }
                set(&configuration, value)
                return true
            })
    }

    init(_ name: String, number set: @escaping @Sendable (inout Configuration, Int) -> Void) {
        self.init(
            name,
            text: { configuration, text in
                guard let value = Int(text), (0...(1 << 40)).contains(value) else { return false }
                set(&configuration, value)
                return true
            })
    }

    /// Every option, one row each.
    static let all: [Setting] = [
        Setting(
            "host",
            text: { configuration, text in
                configuration.host = text
                return !text.isEmpty
            }),
        Setting(
            "port",
            text: { configuration, text in
                guard let port = UInt16(text) else { return false }
                configuration.port = port
                return true
            }),
        Setting(
            "data",
            text: { configuration, text in
                configuration.dataDirectory = text
                return true
            }),
        Setting(
            "rules",
            text: { configuration, text in
                configuration.rulesPath = text
                return true
            }),
        Setting("memory", flag: { $0.isMemoryOnly = $1 }),
        Setting("dev", flag: { $0.isDevelopment = $1 }),
        // Several origins are several lines, or have commas or spaces between them: none has one inside.
        Setting(
            "allow-origin",
            text: { configuration, text in
                let names = text.split { $0 == "," || $0.isWhitespace }
                let origins = names.compactMap { WebOrigin($0) }
                configuration.allowedOrigins += origins
                return !names.isEmpty && origins.count == names.count
            }),
        Setting(
            "durability",
            text: { configuration, text in
                guard let durability = Durability(rawValue: text) else { return false }
                configuration.durability = durability
                return true
            }),
        Setting(
            "log-level",
            text: { configuration, text in
                guard let level = Logger.Level(rawValue: text) else { return false }
                configuration.logLevel = level
                return true
            }),
        Setting("loops", number: { $0.loopCount = $1 }),
        Setting("outbound-limit", number: { $0.outboundByteLimit = $1 }),
        Setting("in-flight-limit", number: { $0.inFlightByteLimit = $1 }),
        Setting("memory-limit", number: { $0.memoryByteLimit = $1 }),
        Setting("segment-bytes", number: { $0.segmentByteLimit = $1 }),
        Setting("checkpoint-bytes", number: { $0.checkpointByteLimit = $1 }),
        Setting("checkpoint-interval", number: { $0.checkpointInterval = .seconds($1) }),
        Setting("keep-checkpoints", number: { $0.keptCheckpointCount = $1 }),
        Setting("max-read-bytes", number: { $0.readByteLimit = $1 }),
        Setting("max-write-bytes", number: { $0.writeByteLimit = $1 }),
        Setting("idle-timeout", number: { $0.idleTimeout = .seconds($1) }),
        Setting("presence-timeout", number: { $0.presenceTimeout = .seconds($1) }),
        Setting("request-timeout", number: { $0.requestTimeout = .seconds($1) }),
        Setting("chunk-limit", number: { $0.chunkCountLimit = $1 }),
        // Several files are several lines.
        Setting(
            "auth-secret-file",
            text: { configuration, text in
                configuration.identity.secrets += text.split(separator: "\n").map { .init(.file(String($0))) }
                return !text.isEmpty
            }),
        Setting("allow-secret-as-admin", flag: { $0.identity.allowsSecretAsAdmin = $1 }),
        Setting("auth-clock-skew", number: { $0.identity.clockSkew = Int64($1) }),
        Setting("jwks-file", text: { set($1, &$0.identity.shorthand.keyFile) }),
        Setting("jwks-issuer", text: { set($1, &$0.identity.shorthand.keyIssuer) }),
        Setting("jwks-audience", text: { set($1, &$0.identity.shorthand.keyAudience) }),
        Setting("oidc-issuer", text: { set($1, &$0.identity.shorthand.oidcIssuer) }),
        Setting("oidc-audience", text: { set($1, &$0.identity.shorthand.oidcAudience) }),
        Setting("firebase-project", text: { set($1, &$0.identity.shorthand.firebaseProject) }),
    ]

    /// Those that may be given several times; in the file as a list, too.
    static let repeatable: Set = ["auth-secret-file", "allow-origin"]

    private static func set(_ text: String, _ option: inout String?) -> Bool {
        option = text
        return !text.isEmpty
    }
}

/// Where values come from, strongest first: flag, environment, file.
struct SettingsLayers {
    var flags: [String: String] = [:]
    var environment: [String: String] = [:]
    /// Members of the configuration file, as text.
    var file: [String: String] = [:]
    /// `auth` of the configuration file.
    var auth: JSONObject?

    /// A secret itself, where no file can be had; never a flag's value, which everybody on the machine can
    /// read.
    static let secretVariable = "PANDO_AUTH_SECRET"

    /// - Parameter problems: Everything wrong with the values, each in the words in which it was given.
    func configuration(_ problems: inout [String]) -> Configuration {
        var configuration = Configuration()
        if let auth { configuration.identity.read(auth, &problems) }
        // `--memory` on the command line speaks against a directory from elsewhere, and the other way round.
        for setting in Setting.all {
            let sources = [
                ("--\(setting.name)", flags[setting.name]),
                (setting.environmentName, environment[setting.environmentName]),
                ("\"\(setting.name)\" in the configuration file", file[setting.name]),
            ]
            guard let (source, text) = sources.first(where: { $0.1 != nil }), let text else { continue }
            if setting.name == "data", flags["data"] == nil, flags["memory"] == "true" { continue }
            if setting.name == "memory", flags["memory"] == nil, flags["data"] != nil { continue }
            if !setting.apply(&configuration, text) {
                problems.append("\(source): \"\(text)\" is no value for it")
            }
        }
        if let secret = environment[Self.secretVariable] {
            configuration.identity.secrets.append(.init(.environment(secret, name: Self.secretVariable)))
        }
        configuration.identity.spellOut(&problems)
        configuration.identity.acceptsDevelopmentTokens = configuration.isDevelopment
        problems += configuration.problems
        return configuration
    }

    /// Reads a configuration file's text: one JSON object of options.
    mutating func readFile(_ json: [UInt8], _ problems: inout [String]) {
        guard let object = JSONObject(json) else {
            do {
                let node = try Node(json: json.rawSpan)
                problems.append(
                    "configuration file: "
                        + (node.isLeaf ? "an object is expected" : "nests too deep, or a name is there twice")
                )
            } catch {
                problems.append("configuration file: \(error)")
            }
            return
        }
        let names = Set(Setting.all.map(\.name))
        for (name, _) in object.members {
            if name == "auth" {
                auth = object.object(name)
                if auth == nil { problems.append("configuration file: \"auth\" must be an object") }
                continue
            }
            guard names.contains(name.string) else {
                problems.append("configuration file: \"\(name)\" is no option")
                continue
            }
            if Setting.repeatable.contains(name.string), let texts = object.texts(name) {
                file[name.string] = texts.joined(separator: "\n")
                continue
            }
            switch object.leaf(name) {
            case .string(let text): file[name.string] = text.string
            case .boolean(let flag): file[name.string] = String(flag)
            case .integer(let number): file[name.string] = String(number)
            default: problems.append("configuration file: \"\(name)\" must be text, a number or a boolean")
            }
        }
    }
}
