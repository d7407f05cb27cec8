import PandoBytes
import PandoTree

// Hashes of large locations. Before the caller executes a transaction it may have another thread compute the
// hash on a snapshot (``nodeToHash(at:comparedWith:)``) and store it (``note(_:of:at:)``). The transaction
// then finds it in the ``HashCache``, and the database thread does not wait for it.

extension LiveTree {
    /// A node that prints to more bytes is hashed on another thread: it takes a tenth of a millisecond.
    package static let inlineHashByteCount = 32 << 10
    /// A longer string is hashed on another thread, and compared afterwards: its snapshots cannot be
    /// distinguished.
    package static let inlineLeafHashByteCount = 256 << 10

    /// The node that should be hashed before a transaction is decided. Nil when that takes next to no time:
    /// the location is small, its hash is known, or the client expects no data there.
    /// - Parameter expectedHash: What the client sent.
    /// - Complexity: O(depth).
    package func nodeToHash(at target: Target, comparedWith expectedHash: Text) -> Node? {
        guard expectedHash.utf8Count > 0, hashes[target.fullPath] == nil else { return nil }
        let node = root.value(at: target.fullPath)
        let byteLimit = node.isLeaf ? Self.inlineLeafHashByteCount : Self.inlineHashByteCount
        return node.isHeavier(than: byteLimit) ? node : nil
    }

    /// Stores a hash that was computed on a snapshot.
    /// - Returns: false, and nothing is stored, when the location has changed since.
    /// - Complexity: O(depth); for a string O(bytes), a fiftieth of the time that its hash takes.
    package mutating func note(_ hash: String, of node: Node, at target: Target) -> Bool {
        let path = target.fullPath
        let current = root.value(at: path)
        guard current.isSameSnapshot(as: node) || node.isLeaf && current == node else { return false }
        hashes.note(hash, of: path)
        return true
    }
}
