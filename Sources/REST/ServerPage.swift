/// What the server reports of itself below `/.inspect` (rest §10.3): the name of the page, without `.json`.
package enum ServerPage: String, CaseIterable, Sendable {
    /// What the server is, and all metrics.
    case stats
    /// Who is connected.
    case connections
    /// The slowest operations of the last hour.
    case operations
    /// The latest messages of the log.
    case log
}
