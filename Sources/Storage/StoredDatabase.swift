import PandoEngine
import PandoRules

/// One database: the name and number of its namespace, and everything that a data directory keeps of it.
///
/// A class, so that a command changes the engine in place: looking a database up copies a reference.
/// `@unchecked Sendable`: made by recovery, then used by one thread at a time (`DatabaseExecutor`).
package final class StoredDatabase: @unchecked Sendable {
    /// The number of the namespace in the journal; never used for another one.
    package let id: UInt32
    /// Canonical (``NamespaceName/canonical(_:)``).
    package let name: String
    /// The tree, the listeners, and the pending onDisconnect writes.
    package var engine: Engine
    /// The access that stored rules give; where there are none, that of the server's mode. ``fileRules`` take
    /// precedence.
    package var storedAccess: Access { didSet { updateAccess() } }
    /// The source of stored rules that this version cannot parse: kept for a version that can.
    package var invalidRules: [UInt8]?
    /// The rules of `--rules`.
    package var fileRules: Ruleset? { didSet { updateAccess() } }
    /// `/.settings/<name>.json`, as JSON (rest §10).
    package var settings: [String: [UInt8]] = [:]

    /// - Parameters:
    ///   - access: What clients may do until there are rules.
    ///   - fileRules: The rules of `--rules` for this namespace.
    package init(id: UInt32, name: String, access: Access, fileRules: Ruleset? = nil) {
        self.id = id
        self.name = name
        storedAccess = access
        self.fileRules = fileRules
        engine = Engine(access: fileRules.map(Access.loaded) ?? access)
    }

    /// Whether there are no rules, so that the server's mode alone decides who has access.
    package var hasNoRules: Bool {
        if case .loaded = engine.access { false } else { true }
    }

    private func updateAccess() {
        engine.access = fileRules.map(Access.loaded) ?? storedAccess
    }
}
