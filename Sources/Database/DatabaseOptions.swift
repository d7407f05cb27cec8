/// What an operator may choose about the databases.
package struct DatabaseOptions: Sendable {
    /// Whether a namespace is created when a client first names it, open to everyone (`--dev`).
    package var createsNamespaces = false
    /// Space of the log that writes of clients leave to the ends of sessions, which cannot be refused.
    package var sessionEndReserveByteCount = 1 << 20

    /// Bytes that the indexes which no rule declares may take together, in all databases.
    package var indexByteLimit = 256 << 20

    package init() {}
}
