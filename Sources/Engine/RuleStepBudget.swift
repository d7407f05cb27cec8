import PandoRules

/// Steps that rules may take in one command (``RulesLimits``). Unless the caller sets it, as many as there
/// are for a request.
///
/// `@unchecked Sendable`: owned by one ``Engine`` and never handed out. An engine belongs to one thread and
/// cannot be copied, so no two threads use it at the same time.
final class RuleStepBudget: @unchecked Sendable {
    var writeStepCount = RulesLimits.requestStepCount
    var readStepCount = RulesLimits.requestStepCount
    /// A write was denied for its steps.
    var isExhausted = false
    /// Steps that rules have taken since ``Engine/takeRuleStepCount()``.
    var spentCount = 0
}
