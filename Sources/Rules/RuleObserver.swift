import PandoTree

/// Who looks on while rules are evaluated. The hot path has nobody: then none of it is compiled in.
protocol RuleObserver {
    /// False when nothing will be looked at.
    static var isObserving: Bool { get }
    /// The rules on the way to a path are about to be asked from this level on. Those above it have been, for
    /// the path before, and say the same.
    mutating func willWalk(from level: Int)
    /// A rule is about to be asked.
    mutating func willAsk(_ rule: RuleExpression, _ kind: RuleKind)
    /// What it said. Nil is an error.
    mutating func didAsk(
        _ rule: RuleExpression, _ kind: RuleKind, _ outcome: Bool?, _ error: RuleError?,
        at keys: ArraySlice<Key>)
    /// An operand of logic came to this. Nil is an error.
    mutating func operand(_ instruction: Int32, _ outcome: Bool?)
    /// An instruction came to this.
    mutating func value(_ instruction: Int32, _ value: RuleValue)
}

/// Nobody looks on.
struct NoObserver: RuleObserver {
    static var isObserving: Bool { false }
    func willWalk(from level: Int) {}
    func willAsk(_ rule: RuleExpression, _ kind: RuleKind) {}
    func didAsk(
        _ rule: RuleExpression, _ kind: RuleKind, _ outcome: Bool?, _ error: RuleError?,
        at keys: ArraySlice<Key>
    ) {}
    func operand(_ instruction: Int32, _ outcome: Bool?) {}
    func value(_ instruction: Int32, _ value: RuleValue) {}
}
