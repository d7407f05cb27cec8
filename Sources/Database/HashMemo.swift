import PandoTree

/// What a thread remembers of hashing: the last snapshot and its hash, since many clients that reconnect to
/// one large location need the same; and pages of earlier snapshots (``HashedPages``). After a change only
/// the children of changed pages are hashed again. SHA-1 over the hashes of all children is always computed.
package struct HashMemo {
    private static let defaultByteLimit = 64 << 20

    private var last: (node: Node, hash: String)?
    private var pages: HashedPages
    /// Calls of the methods below.
    package private(set) var useCount = 0
    /// Steps of hashing nodes that were not known (``HashWalk``).
    package private(set) var hashedStepCount = 0

    package init() { self.init(byteLimit: Self.defaultByteLimit) }

    /// - Parameter byteLimit: Bytes that it may keep, about.
    package init(byteLimit: Int) { pages = HashedPages(byteLimit: byteLimit) }

    /// The simple hash of a node. O(size) of what is not known, and O(children) of large objects.
    package mutating func hash(of node: Node) -> String {
        if let known = knownHash(of: node) { return known }
        var walk = HashWalk(node)
        while true {
            if let hash = advance(&walk, of: node, by: .max) { return hash }
        }
    }

    /// The hash of the snapshot that was hashed last, if it is this one. O(1).
    package mutating func knownHash(of node: Node) -> String? {
        useCount &+= 1
        guard let last, last.node.isSameSnapshot(as: node) else { return nil }
        return last.hash
    }

    /// Does about `stepCount` more steps of a hash.
    /// - Parameter walk: Begun with this `node`.
    /// - Returns: The hash; nil when more steps are needed.
    package mutating func advance(_ walk: inout HashWalk, of node: Node, by stepCount: Int) -> String? {
        let before = walk.hashedStepCount
        let hash = walk.advance(by: stepCount, knowing: &pages)
        hashedStepCount += walk.hashedStepCount - before
        if let hash { last = (node, hash) }
        return hash
    }
}
