/// The steps that the rules may still take for one request, of about a nanosecond each
/// (``RulesLimits/requestStepCount``).
///
/// Clients choose the data that rules are evaluated for, perhaps a million times for one write. So everything
/// is counted whose number depends on the data, or on the length of a rule: the evaluations, their
/// instructions, the keys that they and the walk along the data look up, and the bytes of text that they
/// visit. The count does not depend on the machine: the same request always takes the same number of steps.
///
/// Measured on 2026-11-27: a lookup by a name of the rules, 27 ns for each of 1000 names below 4000 children;
/// `root.child('cfg/a/b/c').val() != 1`, four lookups and five instructions, 230 ns.
struct EvaluationBudget {
    private(set) var remaining: Int

    init(stepCount: Int = RulesLimits.requestStepCount) {
        remaining = stepCount
    }

    /// One evaluation of a rule, besides its instructions.
    static let perRule = 32
    /// One instruction, besides what it visits.
    static let perInstruction = 16
    /// One lookup of a child: by a key of the path, a name in a rule or one that is computed; or one child
    /// that is visited, with the lookup of its rules.
    static let perKey = 32
    /// One text that is made, besides its bytes.
    static let perText = 32
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

    /// Whether more were to be spent than there were.
    var isUsedUp: Bool { remaining < 0 }

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
