import Configuration
import PandoBytes
import PandoIdentity
import PandoSettings
import PandoTree
import Synchronization

/// The values of `pando serve`'s options from everywhere: flags first, then the environment, then the
/// configuration file.
struct OptionSources {
    /// A secret itself, where no file is possible. There is no such flag: all users of a machine can read the
    /// arguments of a process.
    static let secretVariable = "PANDO_AUTH_SECRET"
    /// Names the configuration file, as `--config` does.
    static let fileVariable = "PANDO_CONFIG"
    /// Variables of other commands.
    private static let otherVariables: Set = [
        secretVariable, fileVariable, AdministratorToken.variable, AdministratorToken.fileVariable,
        "PANDO_LOAD_TOKEN",
    ]

    /// Texts by the options' names.
    var flags: [String: String] = [:]
    /// All variables of the process, by their names.
    var environment: [String: String] = [:]
    /// Texts by the options' names.
    private(set) var file: [String: String] = [:]
    /// The member `auth` of the configuration file.
    private(set) var auth: JSONObject?

    /// Reads a configuration file's text: one JSON object of options, and `auth`. It may have comments, and a
    /// comma behind the last member (``CommentedJSON``).
    ///
    /// The file is read here, not by swift-configuration's file providers: those refuse arrays of objects, of
    /// which `auth` consists, do not list the keys of a file, so unknown ones would stay unseen, and accept a
    /// key that is there twice.
    mutating func readFile(_ text: [UInt8], _ problems: inout [String]) {
        let json = CommentedJSON.withoutComments(text)
        guard let object = JSONObject(json) else {
            do {
                _ = try Node(json: json.rawSpan)
                let isObject = json.first { $0 > 0x20 } == UInt8(ascii: "{")
                let reason =
                    if !isObject {
                        "must be a JSON object"
                    } else if let name = Self.repeatedName(in: json) {
                        "has \"\(name)\" twice"
                    } else {
                        "is nested too deeply"
                    }
                problems.append("configuration file: \(reason)")
            } catch {
                problems.append("configuration file: \(error)")
            }
            return
        }
        let forms = Dictionary(uniqueKeysWithValues: ServeOption.all.map { ($0.name, $0.form) })
        for (name, _) in object.members {
            if name == "auth" {
                auth = object.object(name)
                if auth == nil { problems.append("configuration file: \"auth\" must be an object") }
                continue
            }
            guard let form = forms[name.string] else {
                problems.append("configuration file: \"\(name)\" is not an option")
                continue
            }
            if case .list = form, let texts = object.texts(name) {
                file[name.string] = texts.joined(separator: "\n")
                continue
            }
            switch object.leaf(name) {
            case .string(let text): file[name.string] = text.string
            case .boolean(let flag): file[name.string] = String(flag)
            case .integer(let number): file[name.string] = String(number)
            default:
                problems.append("configuration file: \"\(name)\" must be a text, a whole number or a boolean")
            }
        }
    }

    /// The first name that an object of the text has twice; nil for none.
    private static func repeatedName(in json: [UInt8]) -> Text? {
        withCursor(over: json.rawSpan) { cursor in
            var reader = JSONReader(cursor)
            var repeated: Text?
            // It ends at that name.
            try? look(for: &repeated, in: &reader)
            return repeated
        }
    }

    private static func look(for repeated: inout Text?, in reader: inout JSONReader) throws(MalformedJSON) {
        switch reader.peek() {
        case UInt8(ascii: "{"):
            var names: Set<Text> = []
            try reader.readObject { (reader, name) throws(MalformedJSON) in
                guard names.insert(name).inserted else {
                    repeated = name
                    throw reader.unexpected()
                }
                try look(for: &repeated, in: &reader)
            }
        case UInt8(ascii: "["):
            try reader.readArray { (reader) throws(MalformedJSON) in try look(for: &repeated, in: &reader) }
        default: _ = try reader.readLeaf()
        }
    }

    /// The configuration that all sources make together.
    /// - Parameter problems: Gets everything that is wrong, each with the flag, variable or key it came from.
    func configuration(_ problems: inout [String]) -> PandoSettings.Configuration {
        var configuration = PandoSettings.Configuration()
        if let auth { configuration.identity.read(auth, &problems) }
        let origins = ValueOrigins()
        let reader = ConfigReader(
            providers: [
                Self.provider("flags", flags),
                EnvironmentVariablesProvider(environmentVariables: environment).prefixKeys(with: "pando"),
                Self.provider("file", file),
            ], accessReporter: origins)
        for option in ServeOption.all {
            guard let text = reader.string(forKey: ConfigKey([option.name])),
                let source = origins.source(of: option.name)
            else { continue }
            if isOverridden(option.name) { continue }
            do throws(ServeOption.Problem) {
                try option.apply(text, to: &configuration)
            } catch {
                problems.append("\(source.words(option)): \(error)")
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

    /// The text that is in force; nil where the option is given nowhere.
    private func text(of option: ServeOption) -> String? {
        isOverridden(option.name)
            ? nil : flags[option.name] ?? environment[option.environmentName] ?? file[option.name]
    }

    /// An option that has changed.
    struct Difference {
        var name: String
        /// Whether a running server takes it over.
        var reloads: Bool
    }

    /// The options that have other texts than in `other`. `auth` is among them where anything in it differs
    /// but the revocations, which are read again like keys.
    func differences(from other: OptionSources) -> [Difference] {
        var found = ServeOption.all.filter { text(of: $0) != other.text(of: $0) }.map {
            Difference(name: $0.name, reloads: $0.reloads)
        }
        if authMembers != other.authMembers { found.append(Difference(name: "auth", reloads: false)) }
        return found
    }

    private var authMembers: [String: [UInt8]] {
        var members: [String: [UInt8]] = [:]
        for (name, _) in auth?.members ?? [] where name != "revoked_before" {
            members[name.string] = auth?.json(name).map(Array.init)
        }
        return members
    }

    /// The options that are given, and `auth`, as a configuration file: what ``readFile(_:_:)`` reads.
    /// Without `PANDO_AUTH_SECRET`: a secret is not printed.
    var printed: [UInt8] {
        var json: [UInt8] = []
        json.append("{")
        for option in ServeOption.all {
            guard let text = self.text(of: option) else { continue }
            json.append(json.count > 1 ? ",\n  " : "\n  ")
            json.append(json: Text(option.name))
            json.append(": ")
            switch option.form {
            case .flag: json.append(utf8: Bool(text) == true ? "true" : "false")
            case .list:
                json.append("[")
                for (index, part) in text.split(separator: "\n").enumerated() {
                    if index > 0 { json.append(", ") }
                    json.append(json: Text(String(part)))
                }
                json.append("]")
            case .value:
                if let number = Int(text), String(number) == text {
                    json.append(decimal: Int64(number))
                } else {
                    json.append(json: Text(text))
                }
            }
        }
        if let auth {
            json.append(json.count > 1 ? ",\n  \"auth\": " : "\n  \"auth\": ")
            json += auth.bytes
        }
        json.append("\n}\n")
        return json
    }

    /// `--memory` overrides a data directory of the environment or the file, and `--data` a `memory` there.
    private func isOverridden(_ name: String) -> Bool {
        guard flags[name] == nil else { return false }
        return name == "data" && flags["memory"] == "true" || name == "memory" && flags["data"] != nil
    }

    private static func provider(_ name: String, _ texts: [String: String]) -> InMemoryProvider {
        let values = texts.map { (AbsoluteConfigKey([$0]), ConfigValue(.string($1), isSecret: false)) }
        return InMemoryProvider(name: name, values: Dictionary(uniqueKeysWithValues: values))
    }

    /// A warning for each `PANDO_` variable that is not an option: it may be misspelled. It is not an error,
    /// since a variable of another program may begin so.
    var warnings: [String] {
        let known = Self.otherVariables.union(ServeOption.all.map(\.environmentName))
        return environment.keys.filter { $0.hasPrefix("PANDO_") && !known.contains($0) }.sorted().map {
            "\($0): not an option of pando serve; ignored"
        }
    }
}

/// Where a value came from, the strongest first: the order of the providers above.
private enum ValueSource: Int, Comparable {
    case flags, environment, file

    static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }

    /// The option as it is written there.
    func words(_ option: ServeOption) -> String {
        switch self {
        case .flags: "--\(option.name)"
        case .environment: option.environmentName
        case .file: "\"\(option.name)\" in the configuration file"
        }
    }
}

/// Records which provider each value came from, so that a problem is reported in the words that were typed.
private final class ValueOrigins: AccessReporter {
    private let sources = Mutex<[String: ValueSource]>([:])

    func report(_ event: AccessEvent) {
        // A reader asks its providers in their order, and stops at the first that has a value.
        let index = event.providerResults.firstIndex { result in
            if case .success(let lookup) = result.result { lookup.value != nil } else { false }
        }
        guard let index, let source = ValueSource(rawValue: index) else { return }
        sources.withLock { $0[event.metadata.key.components.joined(separator: ".")] = source }
    }

    func source(of name: String) -> ValueSource? { sources.withLock { $0[name] } }
}
