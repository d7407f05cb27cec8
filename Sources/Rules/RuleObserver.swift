import PandoTree

/// Observes the evaluation of rules. The hot path uses ``NoObserver``, for which nothing is compiled in.
protocol RuleObserver {
    /// Whether the observer uses what it gets.
    static var isObserving: Bool { get }
    /// Whether the observer uses ``didRead(_:_:isAfter:)`` and ``didFindNoData(_:)``.
    static var isTracking: Bool { get }
    /// The rules on the path will be evaluated from this level on. Those above were evaluated for the path
    /// before, with the same results.
    mutating func willWalk(from level: Int)
    /// A rule will be evaluated.
    mutating func willEvaluate(_ rule: RuleExpression, _ kind: RuleKind)
    /// A rule was evaluated. The outcome is nil for an error.
    mutating func didEvaluate(
        _ rule: RuleExpression, _ kind: RuleKind, _ outcome: Bool?, _ error: RuleError?,
        at keys: ArraySlice<Key>)
    /// An operand of logic was evaluated. The outcome is nil for an error.
    mutating func operand(_ instruction: Int32, _ outcome: Bool?)
    /// An instruction was evaluated.
    mutating func value(_ instruction: Int32, _ value: RuleValue)
    /// The data of a location was read, as it is before the write or after it.
    mutating func didRead(_ keys: ArraySlice<Key>, _ part: ReadLocations.Part, isAfter: Bool)
    /// This is the first location on the way to a written one that has no data after the write: from here on
    /// no `.validate` applies.
    mutating func didFindNoData(_ keys: ArraySlice<Key>)
}

extension RuleObserver {
    static var isTracking: Bool { false }
    func didRead(_ keys: ArraySlice<Key>, _ part: ReadLocations.Part, isAfter: Bool) {}
    func didFindNoData(_ keys: ArraySlice<Key>) {}
}

/// Observes nothing.
struct NoObserver: RuleObserver {
    static var isObserving: Bool { false }
    func willWalk(from level: Int) {}
    func willEvaluate(_ rule: RuleExpression, _ kind: RuleKind) {}
    func didEvaluate(
        _ rule: RuleExpression, _ kind: RuleKind, _ outcome: Bool?, _ error: RuleError?,
        at keys: ArraySlice<Key>
    ) {}
    func operand(_ instruction: Int32, _ outcome: Bool?) {}
    func value(_ instruction: Int32, _ value: RuleValue) {}
}
