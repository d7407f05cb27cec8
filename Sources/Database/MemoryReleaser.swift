import PandoReactor
import PandoTree

/// Frees values on a worker thread: nodes 4096 at a time, any other value in one piece. After about 4096
/// nodes it has the freed blocks merged (``Heaps``), which takes about a millisecond. Confined to its thread.
package struct MemoryReleaser {
    /// Nodes that were freed since the last merge.
    private var releasedCount = 0

    /// Nodes that are freed in one step, and after which blocks are merged.
    private static let releasedAtOnce = 4096
    /// A value that is not an array of nodes counts as so many nodes.
    private static let otherNodeCount = 256

    package init() {}

    /// Releases a value, which is freed if that was its last reference. O(its nodes).
    package mutating func release(_ value: consuming any Sendable) {
        if let unweighed = (copy value) as? UnweighedValue { unweighed.weigh() }
        guard let nodes = value as? [Node] else {
            value = ()
            return noteReleased(Self.otherNodeCount)
        }
        value = ()
        var release = GradualRelease(consume nodes)
        while case let count = release.releaseSome(Self.releasedAtOnce), count > 0 { noteReleased(count) }
    }

    private mutating func noteReleased(_ count: Int) {
        releasedCount += count
        guard releasedCount >= Self.releasedAtOnce else { return }
        releasedCount = 0
        Heaps.merge()
    }
}
