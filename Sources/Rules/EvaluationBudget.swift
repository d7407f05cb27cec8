/// What the rules may still cost one request, in steps of about a nanosecond
/// (``RulesLimits/requestStepCount``).
///
/// Rules are asked about data that whoever is judged has chosen, perhaps a million times for one write. What
/// one asking may cost is bounded by the rule's length but for what walks over a text; so each asking is
/// counted, and each byte that is walked over. Nothing depends on the machine: the same request always comes
/// to the same.
struct EvaluationBudget {
    private(set) var remaining: Int

    init(stepCount: Int = RulesLimits.requestStepCount) {
        remaining = stepCount
    }

    /// Asking a rule, whatever it says.
    static let perRule = 64
    /// Looking a child up by a name that is put together at run time.
    static let perKey = 32
    /// A byte that a pattern's table is asked about.
    static let perTableByte = 2
    /// A state that a pattern without table may be in at some byte.
    static let perPatternStep = 8
    /// A byte of a text that is searched, or of the one that is looked for.
    static let perSearchByte = 4
    /// A byte whose case is changed: in ASCII, and elsewhere.
    static let (perASCIIByte, perCasedByte) = (2, 32)
    /// Bytes that are compared or copied in one step.
    static let bytesPerStep = 8

    /// - Returns: False when no more is left; nothing is left from then on.
    @inline(__always)
    mutating func spend(_ stepCount: Int) -> Bool {
        guard stepCount <= remaining else {
            remaining = -1
            return false
        }
        remaining &-= stepCount
        return true
    }
}
