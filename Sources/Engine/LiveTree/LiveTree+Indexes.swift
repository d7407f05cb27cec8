import PandoTree

// Indexes (`IndexCatalog.swift`) and the caller: it has other threads build them, on snapshots, and tells the
// tree which queries would use them. What it does with them never changes the result of a command.

extension LiveTree {
    /// Bytes that the indexes of this tree which no rule declares may take together. A lower limit than
    /// before drops those that were not used for the longest time.
    package var indexByteLimit: Int {
        get { indexes.onDemandByteLimit }
        set { indexes.onDemandByteLimit = newValue }
    }

    /// A location with at most so many children gets no index: queries visit all of them.
    package var unindexedChildCount: Int {
        get { indexes.unindexedChildCount }
        set { indexes.unindexedChildCount = newValue }
    }

    /// Indexes that are ready. O(1).
    package var readyIndexCount: Int { indexes.readyCount }

    /// Bytes of the indexes which no rule declares, ready or being built: at least as many as they take.
    /// O(1).
    package var onDemandIndexByteCount: Int { indexes.onDemandByteCount }

    /// When a query used the one of them that was not used for the longest time; nil where there is none.
    /// O(locations with indexes).
    package var leastRecentIndexUse: Int64? { indexes.locations.leastRecentlyUsed()?.lastUse }

    /// Drops that index: see ``takeIndexWork()``. O(locations with indexes).
    package mutating func dropLeastRecentlyUsedIndex() {
        guard let oldest = indexes.locations.leastRecentlyUsed() else { return }
        indexes.drop { $1.number == oldest.number }
    }

    /// Whether there is something for ``takeIndexWork()``. O(1).
    package var hasIndexWork: Bool { indexes.hasWork || updater.hasWork }

    /// What is to be done for indexes now.
    /// - Returns: Computations for another thread, whose results ``finish(_:)`` gets, and dropped indexes,
    ///   which take long to free.
    /// - Complexity: O(jobs × depth).
    package mutating func takeIndexWork() -> (jobs: [IndexJob], dropped: [KeptIndex]) {
        let work = indexes.takeWork()
        var jobs: [IndexJob] = []
        if updater.sweeps.takeDue() { jobs.append(.sweep) }
        for path in work.discoveries {
            guard let declarations = indexes.declarations?[path] else { continue }
            jobs.append(.discover(declarations, path, root[path], moreThan: indexes.unindexedChildCount))
        }
        while let scan = updater.beginScan(over: root) { jobs.append(.scan(scan)) }
        for build in work.builds { jobs.append(.build(IndexBuild(build, over: root[build.path]))) }
        return (jobs, work.dropped)
    }

    /// Children that may have changed since the snapshot of an index: with their pages, about two
    /// milliseconds. If more have, another thread follows these changes first.
    private static let indexDifferenceLimit = 2048

    /// Takes the result of a computation, all at once.
    package mutating func finish(_ result: IndexJobResult) {
        var rest = result
        while let left = finishSome(rest) { rest = left }
    }

    /// Takes the result of a computation, or as much of it as one step may. An index is in force from now on,
    /// unless too much has changed since its snapshot: then there is further work.
    /// - Returns: What is left, for another step; nil where nothing is.
    /// - Complexity: O(changes since the snapshot × log n), bounded to a few milliseconds.
    package mutating func finishSome(_ result: IndexJobResult) -> IndexJobResult? {
        switch result {
        case .found(let locations):
            for location in locations {
                indexes.requestDeclared(
                    location.orders, at: location.path, childCount: location.childCount)
            }
        case .built(let build):
            indexes.noteBuilt(build.number)
            put(build)
        case .scanned(var scan):
            let isFinished = updater.finishSome(&scan, over: root, &listens)
            chargeResizedWindows()
            guard isFinished else { return .scanned(scan) }
            updater.scans.noteDone()
        case .swept: updater.sweepSomeViews(over: root, &listens)
        }
        return nil
    }

    private mutating func put(_ build: IndexBuild) {
        guard let built = build.index, indexes.isAwaited(build.number, at: build.path) else { return }
        let node = root[build.path]
        guard node.children.count >= indexes.minimumChildCountToKeep else {
            return indexes.dropAll(at: build.path)
        }
        if let index = built.following(build.node, to: node, atMost: Self.indexDifferenceLimit) {
            let byteCount = node.isSameSnapshot(as: build.node) ? build.byteCount : index.byteCount
            return indexes.put(index, byteCount: byteCount, number: build.number, at: build.path)
        }
        indexes.follow(built, of: build.node, number: build.number, at: build.path)
    }

    /// Notes that a query was asked for, so that its index is built, or kept. O(depth), mostly.
    /// - Parameters:
    ///   - isLasting: Whether it is a listen's.
    ///   - time: Milliseconds since 1970.
    package mutating func noteUse(of query: Query, at path: Path, isLasting: Bool, at time: Int64) {
        guard query.order != .key || !query.aggregates.isEmpty, !query.loadsAllData else { return }
        indexes.noteUse(of: query, at: path, over: root[path], isLasting: isLasting, at: time)
    }

    /// The query with its index at a location, where there is one that is ready. O(depth).
    package func indexed(_ query: Query, at path: Path) -> IndexedQuery {
        indexes.indexed(query, at: path)
    }
}
