import PandoBytes
import PandoTree

/// As whom a connection acts.
package struct Credential: Hashable, Sendable {
    /// Rules do not apply to an administrator (auth §1).
    package var isAdmin: Bool
    /// The `auth` variable that rules see, as JSON; nil when signed out.
    package let authVariable: Text?
    /// The same, read: once here, and not in each rule. Nil when signed out.
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

/// What every rule that is asked on behalf of one request sees (rules §3): who asks, when, and
/// the database before it.
package struct RuleScope: Sendable {
    package var credential: Credential
    /// `now`: milliseconds since 1970; one instant for the whole request.
    package var milliseconds: Int64
    /// The whole tree as it is before any write of the request: `root`, and where `data` is found.
    package var root: Node

    package init(credential: Credential, milliseconds: Int64, root: Node) {
        self.credential = credential
        self.milliseconds = milliseconds
        self.root = root
    }
}

/// Who may read and write a database.
///
/// Always true: what no rule allows is denied, and `open` exists only where `--dev` asked for it.
package enum Access: Sendable {
    /// No rules are loaded: only an administrator gets in.
    case locked
    /// `--dev` without rules: everybody gets in.
    case open
    /// What the rules allow; an administrator gets in without a look at them (rules §2.5).
    case loaded(Ruleset)

    /// The answer, where no rule has to be asked for it; nil where the rules decide. O(1).
    package func verdict(on credential: Credential) -> Bool? {
        switch self {
        case .locked: credential.isAdmin
        case .open: true
        case .loaded: credential.isAdmin ? true : nil
        }
    }

    /// May the node at `path` be read, whole or through a query?
    /// - Parameter query: What the rules' `query` says (§3.2); nil for a plain read.
    package func allowsRead(at path: Path, query: Query?, in scope: RuleScope) -> Bool {
        switch self {
        case .locked: return scope.credential.isAdmin
        case .open: return true
        case .loaded(let rules):
            guard !scope.credential.isAdmin else { return true }
            var nobody = NoObserver()
            return rules.allowsRead(at: path, query, in: scope, &nobody)
        }
    }

    /// May this write be done?
    ///
    /// - Parameters:
    ///   - paths: Each location that is written; a priority counts as its node (§2.5). All of them must be
    ///     allowed.
    ///   - after: The whole tree as the write would leave it: all paths together, server values resolved.
    ///     Asked for only when rules look at it.
    /// - Complexity: O(paths × depth + written data that rules look at): within one write each rule is asked
    ///   once for each location. All rules together cost no more than ``RulesLimits/requestStepCount``; a
    ///   write that would cost more may not be done.
    package func allowsWrite(at paths: [Path], after: @autoclosure () -> Node, in scope: RuleScope) -> Bool {
        switch self {
        case .locked: return scope.credential.isAdmin
        case .open: return true
        case .loaded(let rules):
            guard !scope.credential.isAdmin else { return true }
            let after = after()
            var nobody = NoObserver()
            return rules.refusal(ofWritingAt: paths, after: after, in: scope, &nobody) == nil
        }
    }

    /// True when the rules name the index at the path; those by key and priority need no naming. Without
    /// rules there is none.
    package func hasIndex(_ index: Index, at path: Path) -> Bool {
        switch self {
        case .loaded(let rules): rules.hasIndex(index, at: path)
        case .locked, .open: index == .key || index == .priority
        }
    }
}
