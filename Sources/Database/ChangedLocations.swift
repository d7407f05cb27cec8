import PandoEngine
import PandoTree

/// Where one push changes something. It is made once, and every session that is not sent the push yet keeps a
/// reference to it (``PushCoalescer``).
final class ChangedLocations: Sendable {
    /// In ascending order, none at or below another; at most ``limit``.
    let paths: [Path]
    /// A few locations at or above ``paths``, for a session that has many; nil where ``paths`` are few.
    let coarse: ChangedLocations?

    /// The most locations of one push. Beyond it, locations above them stand for them.
    static let limit = 128
    /// The most locations of ``coarse``.
    static let coarseLimit = 4
    /// UTF-8 bytes of the keys of one location: as many as Firebase allows for a whole path (realtime §8.6).
    /// For a longer one, the lowest location above it stands that has no more. Paths of Pando may have 24
    /// KiB, and each session that lags compares, sorts and is sent those of hundreds of locations.
    static let keyByteLimit = 768
    /// The most entries of a push that are looked at. For a push that has more, one location is kept: the
    /// base of a merge, at or above which all its receivers listen; or, for `.listens`, the common ancestor
    /// of the alterations, which is above all listens of the push.
    static let visitedEntryLimit = 1024

    private init(_ paths: [Path], coarse: ChangedLocations?) {
        self.paths = paths
        self.coarse = coarse
    }

    private convenience init(_ paths: [Path]) {
        var paths = paths.map { $0.cut(toKeyBytes: Self.keyByteLimit) }
        if paths.count > 1 { paths = paths.topmost(atMost: Self.limit) }
        let coarse = paths.count > Self.coarseLimit ? paths.topmost(atMost: Self.coarseLimit) : nil
        self.init(paths, coarse: coarse.map { ChangedLocations($0, coarse: nil) })
    }

    /// The locations that a push changes. For a removal: the highest ancestor that has become empty with it.
    /// An ancestor that became empty has lost its priority. If it is filled again before the session catches
    /// up, only the ancestor's whole value shows that.
    /// - Parameter root: The tree after the write.
    /// - Complexity: O(entries × depth), at most ``visitedEntryLimit`` entries.
    convenience init(of body: Push.Body, in root: Node) {
        func location(_ path: Path, _ node: Node) -> Path {
            var path = path
            while node.isEmpty, !path.isRoot, root[path.parent].isEmpty { path = path.parent }
            return path
        }
        switch body {
        case .overwrite(let path, let node): self.init([location(path, node)])
        case .merge(let base, let entries) where entries.count > Self.visitedEntryLimit:
            self.init([location(base, root[base])])
        case .merge(let base, let entries):
            self.init(entries.map { location(base.appending($0.path.keys), $0.node) })
        // Replies to a listen, which are not held.
        case .rangeMerge(let path, _): self.init([path])
        case .initial(let state): self.init([state.path])
        case .listens(let changed) where changed.alterations.all.count > Self.visitedEntryLimit:
            let base = changed.alterations.commonAncestor
            self.init([location(base, root[base])])
        case .listens(let changed):
            self.init(changed.alterations.all.map { location($0.path, $0.new) })
        }
    }
}

extension Path {
    /// The lowest location at the path or above it whose keys have at most so many bytes. O(depth).
    fileprivate func cut(toKeyBytes byteLimit: Int) -> Path {
        var left = byteLimit
        for depth in 0..<count {
            left -= keys[depth].utf8Count
            if left < 0 { return Path(Array(keys[..<depth])) }
        }
        return self
    }
}

extension [Path] {
    /// At most `limit` locations such that each of these is at or below one of them. Locations below others
    /// are left out. Where more are left, or these have more bytes, all are cut to the same number of keys:
    /// the largest with which they are few enough.
    /// - Parameter byteLimit: UTF-8 bytes of all their keys.
    /// - Returns: In ascending order, none at or below another.
    /// - Complexity: O(n log n × depth).
    func topmost(atMost limit: Int, keyBytes byteLimit: Int = .max) -> [Path] {
        var kept: [Path] = []
        kept.reserveCapacity(count)
        // In this order an ancestor comes right before the locations below it.
        for path in sorted() where kept.last?.contains(path) != true { kept.append(path) }
        guard kept.count > limit || kept.reduce(0, { $0 + $1.keyByteCount }) > byteLimit else { return kept }
        // Two neighbours become one where they are cut to no more keys than they have in common.
        var joinedCounts = Array<Int>(repeating: 0, count: Limits.pathDepth + 2)
        /// By the number of keys to which all are cut.
        var byteCounts = joinedCounts
        var shared = -1
        for (index, path) in kept.enumerated() {
            var byteCount = 0
            for depth in byteCounts.indices {
                if depth > 0, depth <= path.count { byteCount += path[depth - 1].utf8Count }
                if depth > shared { byteCounts[depth] += byteCount }
            }
            guard index + 1 < kept.count else { break }
            shared = path.sharedDepth(with: kept[index + 1])
            joinedCounts[shared] += 1
        }
        var depth = joinedCounts.count - 1
        var left = kept.count
        while depth > 0, left > limit || byteCounts[depth] > byteLimit {
            depth -= 1
            left -= joinedCounts[depth]
        }
        var cut: [Path] = []
        for path in kept {
            let path = path.count > depth ? Path(Array<Key>(path.keys[..<depth])) : path
            if cut.last?.contains(path) != true { cut.append(path) }
        }
        return cut
    }
}
