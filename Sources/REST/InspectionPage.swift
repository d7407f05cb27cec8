/// What a request to `/.inspect` asks for (rest §10).
package enum InspectionPage: Equatable, Sendable {
    /// `databases.json`: the names of the databases.
    case databases
    /// `denials.json`: the last denials of a database.
    case denials
    /// `children.json`: one page of a location's children.
    case children
    /// `history.json`: what a location held, and who wrote there.
    case history
    /// `evaluate.json`: whether rules allow an operation.
    case evaluate
    /// `backup`, which is not JSON.
    case backup
    /// What the server reports of itself.
    case server(ServerPage)

    /// - Parameters:
    ///   - name: The path behind `/.inspect`, decoded, without its suffix.
    ///   - isJSON: Whether the path has the suffix `.json`.
    init?(_ name: String, isJSON: Bool) {
        switch (name, isJSON) {
        case ("databases", true): self = .databases
        case ("denials", true): self = .denials
        case ("children", true): self = .children
        case ("history", true): self = .history
        case ("evaluate", true): self = .evaluate
        case ("backup", false): self = .backup
        case (_, true):
            guard let page = ServerPage(rawValue: name) else { return nil }
            self = .server(page)
        case (_, false): return nil
        }
    }
}
