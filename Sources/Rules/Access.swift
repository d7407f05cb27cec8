import PandoBytes
import PandoTree

/// As whom a connection acts.
package struct Credential: Hashable, Sendable {
    /// Rules do not apply to an administrator (auth.md §1).
    package var isAdmin: Bool
    /// The `auth` variable that rules see, as JSON; nil when signed out.
    package var authVariable: Text?

    package init(isAdmin: Bool = false, authVariable: Text? = nil) {
        self.isAdmin = isAdmin
        self.authVariable = authVariable
    }

    /// Signed out.
    package static let anonymous = Credential()
    package static let admin = Credential(isAdmin: true)
}

/// Who may read and write a database.
///
/// Always true: what no rule allows is denied, and `open` exists only where `--dev` asked for it.
package enum Access: Sendable {
    /// No rules are loaded: only an administrator gets in.
    case locked
    /// `--dev` without rules: everybody gets in.
    case open
    /// What the rules allow; an administrator gets in without a look at them (security-rules.md §2.5).
    case loaded(Ruleset)

    /// May `credential` read the whole node at `path`?
    package func allowsRead(at path: Path, by credential: Credential) -> Bool {
        switch self {
        case .locked: credential.isAdmin
        case .open: true
        case .loaded(let rules): credential.isAdmin || rules.allowsRead(at: path)
        }
    }

    /// True when the rules name the index at the path; those by key and priority need no naming. Without rules there
    /// is none.
    package func hasIndex(_ index: Index, at path: Path) -> Bool {
        switch self {
        case .loaded(let rules): rules.hasIndex(index, at: path)
        case .locked, .open: index == .key || index == .priority
        }
    }

    /// May `credential` write at `path`, whatever it writes? Where rules look at data the answer may be no
    /// although a given write is allowed: ``allowsWrite(at:after:by:)`` knows.
    package func allowsWrite(at path: Path, by credential: Credential) -> Bool {
        switch self {
        case .locked: credential.isAdmin
        case .open: true
        case .loaded(let rules): credential.isAdmin || rules.allowsWrite(at: path)
        }
    }

    /// May `credential` do this write?
    ///
    /// - Parameters:
    ///   - paths: Each location that is written; a priority counts as its node (§2.5). All of them must be
    ///     allowed.
    ///   - after: The whole tree as the write would leave it: all paths together, server values resolved.
    ///     Asked for only when rules look at it.
    /// - Complexity: O(paths × depth + written data that rules look at).
    package func allowsWrite(at paths: [Path], after: @autoclosure () -> Node, by credential: Credential)
        -> Bool
    {
        switch self {
        case .locked: return credential.isAdmin
        case .open: return true
        case .loaded(let rules):
            guard !credential.isAdmin else { return true }
            let after = after()
            return paths.allSatisfy { rules.allowsWrite(at: $0, after: after) }
        }
    }
}
