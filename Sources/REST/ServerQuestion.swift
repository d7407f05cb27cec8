import PandoHTTP

/// What an administrator asks of the server itself, and not of a database (rest §10.3): what its admin port
/// reports, and its log.
package struct ServerQuestion: Sendable {
    /// Which report is asked for.
    package let page: ServerPage
    /// Those of the request's query string.
    package let parameters: QueryString

    /// The question of a request to `/.inspect/<page>.json`.
    package init(_ page: ServerPage, _ request: RESTRequest) {
        self.page = page
        parameters = request.address.parameters
    }
}
