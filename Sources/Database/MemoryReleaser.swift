import PandoReactor
import PandoTree

/// Frees large values on a worker thread, a part at a time, and has the freed blocks merged before there are
/// many (``Heaps``). Confined to its thread.
struct MemoryReleaser {
    /// Entries of the tree that were freed since their blocks were merged.
    private var releasedCount = 0

    /// Entries of the tree, each of which has some blocks: merged in about a millisecond.
    private static let releasedAtOnce = 4096
    /// As how many of them any other value counts.
    private static let otherEntryCount = 256

    /// Releases a value, which is freed if that was its last reference. O(its entries).
    mutating func release(_ value: consuming any Sendable) {
        guard let nodes = value as? [Node] else {
            value = ()
            return noteReleased(Self.otherEntryCount)
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
