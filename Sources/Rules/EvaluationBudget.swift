/// The steps that the rules may still take for one request, of about a nanosecond each
/// (``RulesLimits/requestStepCount``).
///
/// Clients choose the data that rules are evaluated for, perhaps a million times for one write. The cost of
/// one evaluation is bounded by the length of the rule, except for work on texts. So each evaluation is
/// counted, and each byte of text that it visits. The count does not depend on the machine: the same request
/// always takes the same number of steps.
struct EvaluationBudget {
    private(set) var remaining: Int

    init(stepCount: Int = RulesLimits.requestStepCount) {
        remaining = stepCount
    }

    /// One evaluation of a rule.
    static let perRule = 64
    /// One lookup of a child by a name that is computed at run time.
    static let perKey = 32
    /// One byte that is matched by a pattern's table.
    static let perTableByte = 2
    /// One possible state, at one byte, of a pattern without a table.
    static let perPatternStep = 8
    /// One byte of a text that is searched, or of the text that is searched for.
    static let perSearchByte = 4
    /// One byte whose case is changed, in ASCII and elsewhere.
    static let (perASCIIByte, perCasedByte) = (2, 32)
    /// Bytes that are compared or copied in one step.
    static let bytesPerStep = 8

    /// Spends steps.
    /// - Returns: False when there are not enough. From then on there are none.
    @inline(__always)
    mutating func spend(_ stepCount: Int) -> Bool {
        assert(stepCount >= 0, "steps are never given back")
        guard stepCount <= remaining else {
            remaining = -1
            return false
        }
        remaining &-= stepCount
        return true
    }
}
