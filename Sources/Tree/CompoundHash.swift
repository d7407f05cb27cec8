import PandoBytes

/// What a mobile client tells of a large cache: its leaves cut into ranges, one hash each (wire-protocol §9.6).
package struct CompoundHash: Equatable, Sendable {
    /// The last leaf of each range, relative to the listen; `.priority` may be the final key. Ascending.
    package var paths: [Path]
    /// One more than paths; the last stands for the open range behind them.
    package var hashes: [Text]

    package init(paths: [Path], hashes: [Text]) {
        self.paths = paths
        self.hashes = hashes
    }
}

/// All leaves of one range of a listen, to take the place of what the client has there (§9.7).
package struct RangeMerge: Equatable, Sendable {
    /// Exclusive; nil for the beginning.
    package var start: Path?
    /// Inclusive; nil for the end.
    package var end: Path?
    /// Exactly the leaves of the range, relative to the listen.
    package var node: Node

    package init(start: Path?, end: Path?, node: Node) {
        self.start = start
        self.end = end
        self.node = node
    }
}
extension Node { package func rangeMerges(against: CompoundHash) -> [RangeMerge]? { nil } }
