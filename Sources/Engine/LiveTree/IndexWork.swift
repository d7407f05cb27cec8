import PandoTree

/// What an engine leaves to its caller after a command: to build indexes on other threads, and to free
/// dropped ones.
///
/// Few builds are under way at a time, since each holds a snapshot, and a write copies the pages that it
/// holds. The others wait here without one.
struct IndexWork {
    /// An index that is to be built.
    struct Build {
        let path: Path
        let order: ChildOrder
        let measure: ChildOrder?
        /// That of its slot.
        let number: Int
        let isDeclared: Bool
        /// An index of an earlier snapshot, and that snapshot: only what has changed since is to be done.
        let base: (index: KeptIndex, node: Node)?

        init(_ slot: IndexSlot, at path: Path, base: (index: KeptIndex, node: Node)? = nil) {
            self.path = path
            order = slot.order
            measure = slot.measure
            number = slot.number
            isDeclared = slot.isDeclared
            self.base = base
        }
    }

    /// What the caller can begin now.
    struct Ready {
        fileprivate(set) var builds: [Build] = []
        fileprivate(set) var discoveries: [Path] = []
        fileprivate(set) var dropped: [KeptIndex] = []
    }

    var builds: [Build] = []
    /// Locations below which the rules may declare indexes that are not there.
    var discoveries: [Path] = []
    var dropped: [KeptIndex] = []

    /// Numbers of indexes that are being built.
    private var buildsUnderWay: Set<Int> = []
    /// Builds that are under way at the same time.
    private static let underWayLimit = 2

    /// Whether there is something for ``take(isAwaited:)``. O(1).
    var hasReady: Bool {
        !discoveries.isEmpty || !dropped.isEmpty
            || (!builds.isEmpty && buildsUnderWay.count < Self.underWayLimit)
    }

    /// What the caller can begin now. What follows an earlier build goes first, since it holds
    /// a snapshot; then declared indexes.
    /// - Parameter isAwaited: Whether an index is still to be built.
    mutating func take(isAwaited: (Build) -> Bool) -> Ready {
        var ready = Ready()
        ready.discoveries = exchange(&discoveries, with: [])
        ready.dropped = exchange(&dropped, with: [])
        while buildsUnderWay.count < Self.underWayLimit, !builds.isEmpty {
            let next =
                builds.firstIndex { $0.base != nil } ?? builds.firstIndex { $0.isDeclared }
                ?? builds.startIndex
            let build = builds.remove(at: next)
            guard isAwaited(build) else { continue }
            buildsUnderWay.insert(build.number)
            ready.builds.append(build)
        }
        return ready
    }

    /// An index is no longer being built.
    mutating func noteBuilt(_ number: Int) { buildsUnderWay.remove(number) }

    // MARK: Discoveries

    /// Locations after which the whole tree is looked at once.
    private static let discoveryLimit = 64

    mutating func discover(below path: Path) {
        guard !discoveries.contains(where: { $0.contains(path) }) else { return }
        if discoveries.count == Self.discoveryLimit {
            discoveries = [.root]
        } else {
            discoveries.append(path)
        }
    }
}
