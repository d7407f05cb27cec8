import PandoTree

/// The sweep of a database (``ViewSweep``), if there is one, and which views wait for it.
struct SweepSchedule {
    /// Nil for none, and while a step of it is under way.
    private var sweep: ViewSweep?
    /// The sweep's location and number, also while a step of it is under way; nil for none.
    private(set) var scope: (base: Path, number: Int)?
    /// The number of the last sweep.
    private(set) var lastNumber = 0
    /// Whether the caller is to ask for the next step.
    private(set) var isDue = false

    /// The views below a location are to be updated in later steps.
    /// - Parameter listens: The filtered listens of all sessions, in the order of sessions.
    mutating func begin(below base: Path, _ listens: [(session: SessionID, keys: [FilteredListenKey])]) {
        lastNumber += 1
        // A step that is under way goes on with the new one.
        isDue = isDue || sweep == nil
        let next = ViewSweep(below: base, number: lastNumber, listens, following: sweep)
        scope = (next.base, next.number)
        sweep = next
    }

    /// The number of the sweep at a location or above it; 0 for none. A view there with a lesser
    /// ``QueryView/checkedSweep`` awaits it. O(depth).
    func number(at path: Path) -> Int {
        guard let scope, scope.base.contains(path) else { return 0 }
        return scope.number
    }

    /// - Returns: Whether a step is due, once.
    mutating func takeDue() -> Bool { exchange(&isDue, with: false) }

    /// Moves the sweep out for a step: what two own is copied when it changes. ``end(_:)`` takes it back.
    mutating func beginStep() -> ViewSweep? { sweep.take() }

    /// A step has ended.
    mutating func end(_ step: consuming ViewSweep) {
        isDue = !step.isDone
        if step.isDone { scope = nil } else { sweep = step }
    }
}
