import PandoBytes
import PandoEngine
import PandoIdentity

/// The result of a verification on its way back to the session that wanted it.
struct VerifiedToken: Sendable {
    var session: SessionID
    var digest: SHA256Digest
    var result: VerificationResult
}
