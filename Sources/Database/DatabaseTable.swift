import PandoEngine
import PandoRules
import PandoStorage

/// All databases of the process, by the names of their namespaces. None is removed while the server runs.
struct DatabaseTable {
    private var byName: [String: StoredDatabase] = [:]
    /// The one that was found last: nearly always the one that is asked for next.
    private var last: StoredDatabase?
    /// The number that the next namespace gets.
    private(set) var nextNamespace: UInt32
    /// The rules of `--rules` by namespace, also for namespaces that are created later.
    private(set) var fileRules: [String: Ruleset]

    init(_ recovered: RecoveredState) {
        nextNamespace = recovered.nextNamespace
        fileRules = recovered.fileRules
        for database in recovered.databases.values { byName[database.name] = database }
    }

    /// The database that a client means: the name may be spelled in any case; nil means `default`.
    mutating func find(_ name: String?) -> StoredDatabase? {
        if let last, last.name == name ?? NamespaceName.standard { return last }
        guard let name = NamespaceName.canonical(name ?? NamespaceName.standard), let found = byName[name]
        else { return nil }
        last = found
        return found
    }

    /// The database of a canonical name; nil means `default`.
    subscript(name: String?) -> StoredDatabase? { byName[name ?? NamespaceName.standard] }

    /// Creates a database.
    /// - Parameter name: Canonical, and not used yet.
    mutating func create(_ name: String, access: Access) -> StoredDatabase {
        precondition(byName[name] == nil, "the namespace \(name) exists")
        let database = StoredDatabase(
            id: nextNamespace, name: name, access: access, fileRules: fileRules[name])
        nextNamespace += 1
        byName[name] = database
        last = database
        return database
    }

    /// Replaces the rules of `--rules`; a database that is not among them is under its stored rules.
    /// - Returns: The databases whose rules have changed, sorted by name.
    mutating func setFileRules(_ rulesets: [String: Ruleset]) -> [StoredDatabase] {
        fileRules = rulesets
        var changed: [StoredDatabase] = []
        for name in names {
            guard let database = byName[name], database.fileRules?.source != rulesets[name]?.source else {
                continue
            }
            database.fileRules = rulesets[name]
            changed.append(database)
        }
        return changed
    }

    /// How many databases there are. O(1).
    var count: Int { byName.count }

    /// All databases, in no particular order.
    var all: some Collection<StoredDatabase> { byName.values }

    /// The names of all namespaces, sorted.
    var names: [String] { byName.keys.sorted() }

    /// Everything as it is now. O(databases + sessions).
    /// - Parameter time: Milliseconds since 1970.
    func snapshot(at time: Int64) -> Snapshot {
        Snapshot(byName.values, nextNamespace: nextNamespace, time: time)
    }
}
