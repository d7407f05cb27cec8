import PandoEngine
import PandoStorage

/// What an operator may choose about the databases.
package struct DatabaseOptions: Sendable {
    /// Whether a namespace is created when a client first names it, open to all clients (`--dev`).
    package var createsNamespaces = false
    /// Databases from which on none is created so: each takes about 1 KB of memory, also when it is empty,
    /// and a record of the journal. Our own limit: more than a run of tests has names.
    package var databaseLimit = 10_000
    /// Space of the journal that writes of clients leave to the ends of sessions, which cannot be refused.
    package var sessionEndReserveByteCount = 1 << 20

    /// Bytes that the indexes which no rule declares may take together, in all databases.
    package var indexByteLimit = 256 << 20

    /// A location with at most so many children gets no index: queries visit all of them.
    package var unindexedChildCount = LiveTree.inlineQueryChildCount

    /// Listens, and paths with onDisconnect writes, of one connection.
    package var listenLimit = Engine.largestListenLimit
    package var disconnectLimit = Engine.largestDisconnectLimit
    /// Bytes of memory that the listens of one connection may take.
    package var listenByteLimit = Engine.largestListenByteLimit

    package init() {}

    /// Passes on what an engine must know.
    func configure(_ database: StoredDatabase) {
        database.engine.tree.indexByteLimit = indexByteLimit
        database.engine.tree.unindexedChildCount = unindexedChildCount
        database.engine.listenLimit = listenLimit
        database.engine.disconnectLimit = disconnectLimit
        database.engine.listenByteLimit = listenByteLimit
    }
}
