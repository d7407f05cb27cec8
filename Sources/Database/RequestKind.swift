/// What clients ask for, as it is counted.
package enum RequestKind: UInt8, CaseIterable, Sendable {
    case listen, unlisten, get, put, merge, transaction, onDisconnect
    /// Signing in and out, statistics, and what is refused before it reaches a database.
    case other
    case restRead, restStream, restWrite, restOther
}
