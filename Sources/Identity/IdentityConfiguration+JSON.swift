import PandoBytes
import PandoTree

//  "auth": {
//    "secrets": [{"id": "2026", "file": "/etc/pando/secret", "encoding": "hex"}],      id and encoding may be left out
//    "allow_secret_as_admin": false,
//    "key_files": [{"file": "…", "issuer": "…", "audience": "…", …}],                  … provider, sign_in_provider,
//    "issuers": [{"issuer": "https://…", "audience": "…", "jwks": "auto", …}],           admin_claim
//    "firebase_project": "my-project",
//    "clock_skew_s": 60, "max_token_bytes": 8192, "failures_per_minute": 600,
//    "revoked_before": {"<uid>": <seconds since 1970>}
//  }
//
//  "jwks" is "auto" (discovery) or a URL; "certificates" in its place is the URL of PEM certificates
//  by `kid`.

extension IdentityConfiguration {
    /// Reads the `auth` member of a configuration file (auth §5.1), adding to what is there.
    /// - Parameter problems: Every problem is appended, with its path in the file.
    package mutating func read(_ object: JSONObject, _ problems: inout [String]) {
        for (name, _) in object.members {
            let place = "auth.\(name)"
            switch name {
            case "secrets":
                for member in Self.objects(name, of: object, place, &problems) {
                    readSecret(member, &problems)
                }
            case "key_files":
                for var member in Self.objects(name, of: object, place, &problems) {
                    let path = member.text("file")
                    if let issuer = member.issuer(), let path {
                        keyFiles.append(KeyFile(path: path.string, issuer: issuer))
                    }
                    member.finish(&problems)
                }
            case "issuers":
                for member in Self.objects(name, of: object, place, &problems) {
                    readIssuer(member, &problems)
                }
            case "firebase_project":
                guard let project = object.text(name), !project.string.isEmpty else {
                    problems.append("\(place): must be a project's name")
                    continue
                }
                issuers.append(Self.firebase(project: project))
            case "allow_secret_as_admin":
                guard case .boolean(let flag)? = object.leaf(name) else {
                    problems.append("\(place): must be true or false")
                    continue
                }
                allowsSecretAsAdmin = flag
            case "clock_skew_s": Self.integer(name, of: object, &problems) { clockSkew = $0 }
            case "max_token_bytes": Self.integer(name, of: object, &problems) { tokenByteLimit = Int($0) }
            case "failures_per_minute":
                Self.integer(name, of: object, &problems) { failuresPerMinute = Int($0) }
            case "revoked_before":
                readRevocations(of: object, &problems)
            default: problems.append("\(place): is not an option")
            }
        }
    }

    /// Reads `revoked_before`, which replaces the earlier value.
    mutating func readRevocations(of object: JSONObject, _ problems: inout [String]) {
        guard let subjects = object.object("revoked_before") else {
            return problems.append("auth.revoked_before: must be an object of times by uid")
        }
        revokedBefore = [:]
        for (subject, _) in subjects.members {
            Self.integer(subject, of: subjects, &problems) { revokedBefore[subject] = $0 }
        }
    }

    private mutating func readSecret(_ members: Members, _ problems: inout [String]) {
        var members = members
        let id = members.optionalText("id")
        let file = members.text("file")
        var encoding: Secret.Encoding?
        if let name = members.optionalText("encoding") {
            encoding = Secret.Encoding(rawValue: name.string)
            if encoding == nil { members.found.append("encoding: must be hex, base64 or raw") }
        }
        members.finish(&problems)
        if let file { secrets.append(SecretSource(.file(file.string), id: id, encoding: encoding)) }
    }

    private mutating func readIssuer(_ members: Members, _ problems: inout [String]) {
        var members = members
        let jwks = members.optionalText("jwks")
        let certificates = members.optionalText("certificates")
        let issuer = members.issuer()
        let keys: RemoteIssuer.Keys
        switch (jwks, certificates) {
        case (_?, _?):
            members.found.append("certificates: can't go with jwks")
            keys = .discovery
        case (nil, let url?): keys = .certificates(url.string)
        case ("auto"?, nil), (nil, nil): keys = .discovery
        case (let url?, nil): keys = .jwks(url.string)
        }
        members.finish(&problems)
        if let issuer { issuers.append(RemoteIssuer(issuer: issuer, keys: keys)) }
    }

    private static func integer(
        _ name: Text, of object: JSONObject, _ problems: inout [String], _ set: (Int64) -> Void
    ) {
        guard case .integer(let value)? = object.leaf(name), (0...(1 << 40)).contains(value) else {
            problems.append("auth: \(name) must be a number, and not a negative one")
            return
        }
        set(value)
    }

    private static func objects(
        _ name: Text, of object: JSONObject, _ place: String, _ problems: inout [String]
    ) -> [Members] {
        guard let elements = object.elements(name) else {
            problems.append("\(place): must be an array")
            return []
        }
        var found: [Members] = []
        for (index, element) in elements.enumerated() {
            if let object = JSONObject(element) {
                found.append(Members(object, "\(place)[\(index)]"))
            } else {
                problems.append("\(place)[\(index)]: must be an object")
            }
        }
        return found
    }
}

/// Reads text members of an object, and reports the members that were not read.
private struct Members {
    let object: JSONObject
    let place: String
    var read: Set<Text> = []
    var found: [String] = []

    init(_ object: JSONObject, _ place: String) {
        self.object = object
        self.place = place
    }

    mutating func optionalText(_ name: Text) -> Text? {
        read.insert(name)
        guard object.contains(name) else { return nil }
        guard let text = object.text(name), !text.string.isEmpty else {
            found.append("\(name): must be text")
            return nil
        }
        return text
    }

    mutating func text(_ name: Text) -> Text? {
        if !object.contains(name) { found.append("\(name): missing") }
        return optionalText(name)
    }

    mutating func issuer() -> Issuer? {
        let name = text("issuer")
        let audience = text("audience")
        let provider = optionalText("provider")
        let signInProvider = optionalText("sign_in_provider")
        let adminClaim = optionalText("admin_claim")
        guard let name, let audience else { return nil }
        return Issuer(
            name: name, audience: audience, provider: provider, signInProvider: signInProvider,
            adminClaim: adminClaim)
    }

    mutating func finish(_ problems: inout [String]) {
        for (name, _) in object.members where !read.contains(name) {
            found.append("\(name): is not an option")
        }
        problems += found.map { "\(place).\($0)" }
    }
}
