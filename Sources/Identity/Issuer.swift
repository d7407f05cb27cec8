import PandoBytes

/// An issuer of tokens, and how its claims are read (auth §3, §5).
package struct Issuer: Sendable, Equatable {
    /// The exact value of `iss`.
    package var name: Text
    /// What `aud` must be or contain.
    package var audience: Text
    /// `auth.provider` where the claims have no `firebase.sign_in_provider`; nil for the issuer's host.
    package var provider: Text?
    /// Put into claims without a `firebase` member, so that rules written for Firebase find
    /// `auth.token.firebase.sign_in_provider`.
    package var signInProvider: Text?
    /// The claim that makes an administrator when it is `true`; nil for none. No claim name does so by
    /// itself, not even `admin`.
    package var adminClaim: Text?
    /// ID tokens of a Firebase project: RS256 and a `kid`, and the stricter claims of auth §2.1.
    package var isFirebase = false

    package init(
        name: Text, audience: Text, provider: Text? = nil, signInProvider: Text? = nil,
        adminClaim: Text? = nil,
        isFirebase: Bool = false
    ) {
        self.name = name
        self.audience = audience
        self.provider = provider
        self.signInProvider = signInProvider
        self.adminClaim = adminClaim
        self.isFirebase = isFirebase
    }

    /// The issuer of a Firebase project's ID tokens (auth §2.1).
    package init(firebaseProject project: Text) {
        self.init(
            name: Text("https://securetoken.google.com/\(project)"), audience: project, isFirebase: true)
    }

    /// Between `://` and the next `/`.
    var host: Text {
        let text = name.string
        guard let scheme = text.firstRange(of: "://") else { return name }
        return Text(String(text[scheme.upperBound...].prefix { $0 != "/" }))
    }
}
