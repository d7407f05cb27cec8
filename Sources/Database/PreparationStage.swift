/// What was computed for a request. Each step needs those before.
struct PreparationStage {
    enum Step: Int, Comparable {
        case arrived
        /// Its data is printed.
        case printed
        /// A large compare-and-set is permitted; so its location is hashed.
        case permitted
        /// The hash of its location is known.
        case hashed
        /// Its rules are evaluated and its data ordered.
        case decided

        static func < (left: Step, right: Step) -> Bool { left.rawValue < right.rawValue }
    }

    private(set) var step = Step.arrived
    /// How often its rules were evaluated.
    private(set) var attempts = 0

    /// Its rules took longer than there is time at once.
    private(set) var isUndecided = false

    /// Of a write whose rules take longer than there is time at once.
    static let undecided = PreparationStage(step: .printed, isUndecided: true)

    /// The same stage of such a write.
    var undecided: PreparationStage {
        PreparationStage(step: step, attempts: attempts, isUndecided: true)
    }

    /// The stage when the next step is done.
    func reaching(_ step: Step) -> PreparationStage {
        PreparationStage(
            step: step, attempts: attempts + (step == .decided || step == .permitted ? 1 : 0),
            isUndecided: isUndecided)
    }

    /// What it depends on has changed: only what was printed still holds.
    var again: PreparationStage {
        PreparationStage(step: .printed, attempts: attempts, isUndecided: isUndecided)
    }
}
