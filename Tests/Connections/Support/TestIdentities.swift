import PandoBytes
import PandoIdentity
import PandoRules

/// What a verified token of a user proves.
/// - Parameters:
///   - validUntil: Seconds since 1970; nil for a token that does not expire.
///   - signedInAt: When the user signed in, for revocations.
func user(_ uid: String, validUntil: Int64? = nil, signedInAt: Double? = nil) -> Identity {
    Identity(
        credential: Credential(authVariable: Text(#"{"uid":"\#(uid)"}"#)), expires: validUntil,
        validUntil: validUntil, subject: Text(uid), signedInAt: signedInAt)
}

/// What the token of an administrator proves.
let administrator = Identity(credential: .admin)
