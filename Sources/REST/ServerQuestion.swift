import PandoHTTP

/// What an administrator asks of the server itself, and not of a database (rest §10.3): what its admin port
/// reports, and its log.
package struct ServerQuestion: Sendable {
    package enum Page: String, CaseIterable, Sendable {
        /// What the server is, and all metrics.
        case stats
        /// Who is connected.
        case connections
        /// The slowest operations of the last hour.
        case operations
        /// The latest messages of the log.
        case log
    }

    package let page: Page
    package let parameters: QueryString

    /// The question of a request to `/.inspect/<page>.json`.
    package init(_ page: Page, _ request: RESTRequest) {
        self.page = page
        parameters = request.address.parameters
    }
}
