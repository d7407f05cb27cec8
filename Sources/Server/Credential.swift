import PandoRules

/// Whose rights a session has; what a client sends to sign in is ``PandoWire/Credential``.
typealias Credential = PandoRules.Credential
