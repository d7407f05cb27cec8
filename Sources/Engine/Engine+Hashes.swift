import PandoBytes
import PandoRules
import PandoTree

// Hashes of large locations. A host that must not wait for one lets another thread compute it on a snapshot
// before it runs the command that compares it (``nodeToHash(at:comparedWith:)``), and notes it; the command
// then finds it in the ``HashCache``.

extension Engine {
    /// Printed bytes from which on a node is hashed elsewhere: what takes a tenth of a millisecond.
    package static let inlineHashByteCount = 32 << 10

    /// What must be hashed before a compare-and-set can be decided; nil when that takes next to no time: the
    /// location is small, its hash is known, or the client expects nothing there.
    /// - Parameter expectedHash: What the client sent.
    package func nodeToHash(at target: Target, comparedWith expectedHash: Text) -> Node? {
        guard expectedHash.utf8Count > 0, hashes[target.fullPath] == nil else { return nil }
        let node = root.value(at: target.fullPath)
        // A string is hashed in one go, the longest within some milliseconds; and leaves are no snapshots
        // that can be told apart.
        return !node.isLeaf && node.isHeavier(than: Self.inlineHashByteCount) ? node : nil
    }

    /// Notes a hash that was computed on a snapshot.
    /// - Returns: false, and nothing is noted, when the location has changed since.
    package mutating func note(_ hash: String, of node: Node, at target: Target) -> Bool {
        let path = target.fullPath
        guard root.value(at: path).isSameSnapshot(as: node) else { return false }
        hashes.note(hash, of: path)
        return true
    }

    /// What a compare-and-set is answered whose location has changed while its hash was computed: another
    /// value was there, or there is another by now.
    package func staleReply(
        at target: Target, wantsCurrentValue: Bool, for session: SessionID, as credential: Credential,
        at time: Int64
    ) -> Reply {
        staleReply(
            root.value(at: target.fullPath), hash: nil, at: target, wantsCurrentValue, session, credential,
            time)
    }

    /// - Parameter hash: Of the node; nil where it is not known yet, and computed when the answer is printed.
    func staleReply(
        _ node: Node, hash: String?, at target: Target, _ wantsCurrentValue: Bool, _ session: SessionID,
        _ credential: Credential, _ time: Int64
    ) -> Reply {
        let mayTell =
            mayRead(target.path, nil, as: credential, at: time)
            && (wantsCurrentValue || !hasListen(covering: target.path, of: session))
        return .dataStale(current: mayTell ? .init(node: node, knownHash: hash) : nil)
    }
}
