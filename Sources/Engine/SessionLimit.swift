/// What one session may have only so many of.
package enum SessionLimit: UInt8, CaseIterable, Sendable {
    case listens
    /// With a query, at one location.
    case filteredListens
    case aggregates
    /// Bytes of memory that the listens take.
    case listenBytes
    /// Locations with onDisconnect writes, and their bytes.
    case onDisconnects

    /// What a client that asks for more is answered.
    package var text: StaticString {
        switch self {
        case .listens: "Too many listens on this connection"
        case .filteredListens: "Too many listens with a query at this location on this connection"
        case .aggregates: "Too many live aggregates on this connection"
        case .listenBytes: "The listens on this connection take too much memory"
        case .onDisconnects: "Too many onDisconnect operations are pending"
        }
    }
}
