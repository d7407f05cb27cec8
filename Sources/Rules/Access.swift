import PandoBytes
import PandoTree

/// The identity with which a connection acts.
package struct Credential: Hashable, Sendable {
    /// The rules do not apply to an administrator (auth §1).
    package var isAdmin: Bool
    /// The `auth` variable of the rules, as JSON; nil when signed out.
    package let authVariable: Text?
    /// The same, parsed once here instead of in each rule. Nil when signed out.
    let auth: AuthVariable?

    /// - Complexity: O(bytes of the JSON).
    package init(isAdmin: Bool = false, authVariable: Text? = nil) {
        self.isAdmin = isAdmin
        self.authVariable = authVariable
        auth = authVariable.map(AuthVariable.init(json:))
    }

    package static func == (left: Credential, right: Credential) -> Bool {
        left.isAdmin == right.isAdmin && left.authVariable == right.authVariable
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(isAdmin)
        hasher.combine(authVariable)
    }

    /// `auth.uid`, when it is a string: for logs and reports.
    package var uid: Text? {
        if case .string(let text)? = auth?.uid { text } else { nil }
    }

    /// Signed out.
    package static let anonymous = Credential()
    package static let admin = Credential(isAdmin: true)
}

/// The input of every rule that one request evaluates (rules §3): credential, time, and the database before
/// the request.
package struct RuleScope: Sendable {
    package var credential: Credential
    /// `now`: milliseconds since 1970; one instant for the whole request.
    package var milliseconds: Int64
    /// The whole tree before any write of the request: `root`, and the source of `data`.
    package var root: Node

    package init(credential: Credential, milliseconds: Int64, root: Node) {
        self.credential = credential
        self.milliseconds = milliseconds
        self.root = root
    }
}

/// What decides who may read and write a database.
///
/// Always true: what no rule grants is denied, and `open` exists only with `--dev`.
package enum Access: Sendable {
    /// No rules are loaded: only an administrator may do anything.
    case locked
    /// `--dev` without rules: every client may do everything.
    case open
    /// The rules decide, except for an administrator, who may do everything (rules §2.5).
    case loaded(Ruleset)

    /// Whether the credential may do everything or nothing, as far as that is known without the rules; nil
    /// where the rules decide. O(1).
    package func decisionWithoutRules(for credential: Credential) -> Bool? {
        switch self {
        case .locked: credential.isAdmin
        case .open: true
        case .loaded: credential.isAdmin ? true : nil
        }
    }

    /// Whether the node at `path` may be read, whole or through a query.
    /// - Parameter query: The `query` of the rules (§3.2); nil for a plain read.
    /// - Complexity: O(depth) rules, at most ``RulesLimits/requestStepCount`` steps.
    package func allowsRead(at path: Path, query: Query?, in scope: RuleScope) -> Bool {
        var left = RulesLimits.requestStepCount
        return allowsRead(at: path, query: query, in: scope, spending: &left)
    }

    /// The same with a limit of steps.
    /// - Parameter left: The steps that there are, of about a nanosecond each; what is left of them
    ///   afterwards, negative where they did not suffice: then it is denied.
    package func allowsRead(
        at path: Path, query: Query?, in scope: RuleScope, spending left: inout Int
    ) -> Bool {
        switch self {
        case .locked: return scope.credential.isAdmin
        case .open: return true
        case .loaded(let rules):
            guard !scope.credential.isAdmin else { return true }
            var observer = NoObserver()
            return rules.allowsRead(at: path, query, in: scope, &observer, spending: &left)
        }
    }

    /// Whether this write is permitted.
    ///
    /// - Parameters:
    ///   - paths: The locations that are written; a priority counts as its node (§2.5). All of them must be
    ///     permitted.
    ///   - after: The whole tree after the write: all paths together, server values resolved. Evaluated only
    ///     when the rules decide.
    /// - Complexity: O(paths × depth + written data that rules read): within one write each rule is evaluated
    ///   once for each location. All rules together take at most ``RulesLimits/requestStepCount`` steps; a
    ///   write that would take more is denied.
    package func allowsWrite(at paths: [Path], after: @autoclosure () -> Node, in scope: RuleScope) -> Bool {
        var left = RulesLimits.requestStepCount
        return allowsWrite(at: paths, after: after(), in: scope, spending: &left)
    }

    /// The same with a limit of steps.
    /// - Parameter left: The steps that there are, of about a nanosecond each; what is left of them
    ///   afterwards, negative where they did not suffice: then it is denied.
    package func allowsWrite(
        at paths: [Path], after: @autoclosure () -> Node, in scope: RuleScope, spending left: inout Int
    ) -> Bool {
        switch self {
        case .locked: return scope.credential.isAdmin
        case .open: return true
        case .loaded(let rules):
            guard !scope.credential.isAdmin else { return true }
            let after = after()
            var observer = NoObserver()
            return rules.refusal(ofWritingAt: paths, after: after, in: scope, &observer, spending: &left)
                == nil
        }
    }

    /// Whether a rule searches or changes texts, which takes as long as they are. O(1).
    package var searchesTexts: Bool {
        if case .loaded(let rules) = self { rules.root.searchesTexts } else { false }
    }

    /// Whether the rules define the index at the path. Those by key and by priority always exist. O(depth).
    package func hasIndex(_ order: ChildOrder, at path: Path) -> Bool {
        switch self {
        case .loaded(let rules): rules.hasIndex(order, at: path)
        case .locked, .open: order == .key || order == .priority
        }
    }
}
