import PandoBytes
import PandoREST
import PandoTree

/// A reply that needs no database, with the number of its request.
package enum SessionReply: Sendable {
    case ok(Int64)
    /// Success of a listen through a query whose order the rules do not declare (realtime §4.2).
    case listeningWithoutIndex(Int64)
    case authenticated(Int64, authVariable: Text?, expires: Int64?)
    case unauthenticated(Int64)
    case authenticationFailed(Int64, isExpired: Bool, reason: StaticString)
    /// The token could not be verified now; nothing says that it is invalid.
    case authenticationUnavailable(Int64, reason: StaticString)
    /// No reply: the connection ends behind those before it.
    case finished
    case unknownAction(Int64)
    case tooBig(Int64)
    /// The disk is full.
    case diskFull(Int64)
    /// Others have changed what a large write depends on, again and again.
    case contested(Int64)
    /// The client has exceeded a limit that is for clients; what it asked for is not done.
    case limitExceeded(Int64, ClientLimit)
    case invalid(Int64, InvalidData)
}
