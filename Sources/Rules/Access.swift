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

    /// May `credential` read the whole node at `path`?
    package func allowsRead(at path: Path, by credential: Credential) -> Bool {
        isOpen || credential.isAdmin
    }

    /// May `credential` write at `path`?
    package func allowsWrite(at path: Path, by credential: Credential) -> Bool {
        isOpen || credential.isAdmin
    }

    private var isOpen: Bool {
        switch self {
        case .open: true
        case .locked: false
        }
    }
}
