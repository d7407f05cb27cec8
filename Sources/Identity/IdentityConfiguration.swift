import PandoBytes

/// Which tokens are accepted (auth §5.1). Values only: no file is opened.
package struct IdentityConfiguration: Sendable {
    /// Where a secret comes from. Never from a flag: every user of the machine can read flags.
    package struct SecretSource: Sendable {
        package enum Place: Sendable {
            case file(String)
            /// The value of a variable, and its name.
            case environment(String, name: String)
        }

        package var place: Place
        package var id: Text?
        package var encoding: Secret.Encoding?

        package init(_ place: Place, id: Text? = nil, encoding: Secret.Encoding? = nil) {
            self.place = place
            self.id = id
            self.encoding = encoding
        }
    }

    /// Public keys in a file, of one issuer.
    package struct KeyFile: Sendable {
        package var path: String
        package var issuer: Issuer

        package init(path: String, issuer: Issuer) {
            self.path = path
            self.issuer = issuer
        }
    }

    /// Public keys that an issuer publishes.
    package struct RemoteIssuer: Sendable {
        package enum Keys: Sendable, Equatable {
            /// `jwks_uri` of the issuer's discovery document.
            case discovery
            /// A JWK set at this URL.
            case jwks(String)
            /// A JSON object of PEM certificates at this URL.
            case certificates(String)
        }

        package var issuer: Issuer
        package var keys: Keys

        package init(issuer: Issuer, keys: Keys) {
            self.issuer = issuer
            self.keys = keys
        }
    }

    /// The options that have a flag each: one key file, one issuer, one project.
    package struct Shorthand: Sendable {
        package var keyFile: String?
        package var keyIssuer: String?
        package var keyAudience: String?
        package var oidcIssuer: String?
        package var oidcAudience: String?
        package var firebaseProject: String?
    }

    package var shorthand = Shorthand()
    package var secrets: [SecretSource] = []
    package var allowsSecretAsAdmin = false
    package var keyFiles: [KeyFile] = []
    package var issuers: [RemoteIssuer] = []
    /// Seconds by which a clock may be wrong.
    package var clockSkew: Int64 = 60
    package var tokenByteLimit = Self.tokenByteMaximum
    package var revokedBefore: [Text: Int64] = [:]
    /// The configuration file. Its `auth.revoked_before` is read again when key files are; nothing else of it
    /// is.
    package var revocationFile: String?
    /// Bad tokens of one address in a minute; 0 for no limit.
    package var failuresPerMinute = 600
    /// Accepts `owner` and unsigned tokens (auth §2.5). Only for a server that listens on loopback.
    package var acceptsDevelopmentTokens = false

    /// The limit of the official verifier, in seconds (auth §5.2).
    package static let clockSkewMaximum: Int64 = 60
    /// The longest token, in bytes (auth §5.2).
    package static let tokenByteMaximum = 8 << 10
    /// Where the keys of Firebase's ID tokens are published (auth §2.1).
    package static let firebaseCertificates =
        "https://www.googleapis.com/robot/v1/metadata/x509/securetoken@system.gserviceaccount.com"

    package init() {}

    /// The ID tokens of a Firebase project.
    package static func firebase(project: Text) -> RemoteIssuer {
        RemoteIssuer(issuer: Issuer(firebaseProject: project), keys: .certificates(firebaseCertificates))
    }

    /// Turns ``shorthand`` into key files and issuers.
    /// - Parameter problems: Every incomplete set of options is appended.
    package mutating func spellOut(_ problems: inout [String]) {
        let given = shorthand
        shorthand = Shorthand()
        switch (given.keyFile, given.keyIssuer, given.keyAudience) {
        case (nil, nil, nil): break
        case (let file?, let issuer?, let audience?):
            keyFiles.append(KeyFile(path: file, issuer: Issuer(name: Text(issuer), audience: Text(audience))))
        default:
            problems.append(
                "--jwks-file, --jwks-issuer, --jwks-audience: give all three or none; the keys are for one issuer and one audience"
            )
        }
        switch (given.oidcIssuer, given.oidcAudience) {
        case (nil, nil): break
        case (let issuer?, let audience?):
            issuers.append(
                RemoteIssuer(issuer: Issuer(name: Text(issuer), audience: Text(audience)), keys: .discovery))
        default: problems.append("--oidc-issuer, --oidc-audience: give both or none")
        }
        if let project = given.firebaseProject { issuers.append(Self.firebase(project: Text(project))) }
    }

    /// Whether no token at all would be accepted.
    package var isEmpty: Bool {
        secrets.isEmpty && keyFiles.isEmpty && issuers.isEmpty && !acceptsDevelopmentTokens
    }

    /// Every problem that can be found without opening a file or a socket.
    package var problems: [String] {
        var found: [String] = []
        if !(0...Self.clockSkewMaximum).contains(clockSkew) {
            found.append("--auth-clock-skew: must be 0 to \(Self.clockSkewMaximum) seconds")
        }
        if !(256...Self.tokenByteMaximum).contains(tokenByteLimit) {
            found.append("max_token_bytes: must be 256 to \(Self.tokenByteMaximum)")
        }
        if failuresPerMinute < 0 { found.append("failures_per_minute: must not be negative") }
        if allowsSecretAsAdmin, secrets.isEmpty {
            found.append("--allow-secret-as-admin: there is no secret; give --auth-secret-file")
        }
        for issuer in keyFiles.map(\.issuer) + issuers.map(\.issuer) {
            if issuer.name.string.isEmpty { found.append("an issuer has no name") }
            if issuer.audience.string.isEmpty {
                found.append("issuer \(issuer.name): an audience is missing")
            }
        }
        for issuer in issuers {
            switch issuer.keys {
            case .discovery:
                if FetchURL(issuer.issuer.name.string) == nil {
                    found.append(Self.badURL(issuer.issuer.name.string))
                }
            case .jwks(let url), .certificates(let url):
                if FetchURL(url) == nil { found.append(Self.badURL(url)) }
            }
        }
        return found
    }

    /// Warnings about settings that are valid but may be unintended.
    package var warnings: [String] {
        var names: [Text] = []
        for issuer in keyFiles.map(\.issuer) + issuers.map(\.issuer) where !names.contains(issuer.name) {
            names.append(issuer.name)
        }
        guard names.count > 1 else { return [] }
        let list = names.map(\.string).joined(separator: ", ")
        return [
            "\(list) share one space of uids: a user with the same uid at another issuer is treated as the same user; distinguish them in rules by auth.token.iss"
        ]
    }

    private static func badURL(_ url: String) -> String {
        "\(url): must be an https:// URL (http:// only on a loopback host): a person who can change its response can sign in as any user"
    }
}
