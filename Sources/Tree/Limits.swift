/// The limits of the data model. Clients check only some of them; the server enforces all. Inlinable, since
/// each key of each message is checked.
@usableFromInline
package enum Limits {
    /// Segments from the root to a leaf (realtime §8.6: 33 is refused).
    @inlinable package static var pathDepth: Int { 32 }
    /// UTF-8 bytes of one key (rest §1.3, realtime §8.6: limiting each key rather than the whole path
    /// accepts all that clients may send). With the depth it bounds a path as well.
    @inlinable package static var keyByteCount: Int { 768 }
    /// UTF-8 bytes of one string leaf: 10 MiB (§8.6).
    @inlinable package static var stringByteCount: Int { 10_485_760 }
    /// Nesting of arrays and objects in one JSON text. iOS sends data up to 1000 levels deep (§8.6), which
    /// gets an error response; deeper messages are malformed.
    @inlinable package static var jsonDepth: Int { 1024 }
    /// Keys of all paths of one merge together, those of the base counted in each: such a merge takes the
    /// database a second or two. Not a limit of Firebase; `update()` of 100 000 children ten levels down is
    /// below it.
    @inlinable package static var mergeKeyCount: Int { 1_000_000 }
    /// Nodes of one write, over the realtime protocol and REST: as many as fit in the bytes that a write may
    /// have, with ``DraftParser/nodeByteCount`` each, and at least 65 536. Their JSON may be shorter: in
    /// `[0,0,…]` a node has two bytes.
    package static func nodeCount(writeByteLimit: Int) -> Int {
        max(1 << 16, writeByteLimit / DraftParser.nodeByteCount)
    }
    /// Fields of one order: those of `where`, and the one by which the query orders (§7.6). Our own limit:
    /// each takes a look-up in both of two children that are compared.
    package static let orderFieldCount = 4
    /// Bytes of the text of one query object. Our own limit: it is kept as long as there are listens through
    /// it.
    package static let queryByteCount = 64 << 10
    /// Children of a query's limit: 1 … 2^31−1 (§7.1).
    @inlinable package static var queryLimit: Int { 2_147_483_647 }
}
