import PandoBytes
import PandoIdentity
import PandoREST
import PandoRules
import PandoWire

/// A client that is no administrator asked to act as another user (auth §2.4).
struct NotAnAdministrator: Error {}

extension Identity {
    /// As whom a client acts that has signed in over the realtime protocol, with `authvar` or `noauth`
    /// (realtime §4.7).
    func credential(asking asked: AuthenticationRequest) throws(NotAnAdministrator) -> Credential {
        guard asked.isUnauthenticated || asked.authVariable != nil else { return credential }
        guard credential.isAdmin else { throw NotAnAdministrator() }
        if asked.isUnauthenticated { return .anonymous }
        return Credential(authVariable: asked.authVariable.map { Text($0.description) })
    }

    /// As whom a REST request acts, with `auth_variable_override` (rest §4).
    func credential(asking override: AuthVariableOverride?) throws(NotAnAdministrator)
        -> Credential
    {
        guard let override else { return credential }
        guard credential.isAdmin else { throw NotAnAdministrator() }
        return override.claims == nil ? .anonymous : Credential(authVariable: override.json)
    }
}
