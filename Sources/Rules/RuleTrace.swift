import PandoBytes
import PandoTree

/// Whether a read or a write is permitted, and every rule that was evaluated to find that out: for the
/// authors of rules, who try them with a draft. It contains values of data and claims, so it must not be sent
/// to clients.
package struct RuleTrace: Sendable {
    package enum Cause: String, Sendable {
        /// An administrator: the rules are not asked.
        case administrator
        /// No rules are loaded, and the server is in `--dev`.
        case open
        /// No rules are loaded.
        case locked
        /// A `.read` or `.write` rule is true, and so is every `.validate` rule that applies.
        case granted
        /// There is no rule for the operation between the root and the location.
        case noRule
        /// There are such rules, but none is true.
        case notGranted
        /// A rule granted the write, but a `.validate` rule is not true.
        case invalid
    }

    /// A rule that was evaluated.
    package struct Step: Sendable {
        /// Nil for an error.
        package let outcome: Bool?
        /// Without it, or with another outcome, the whole might be decided otherwise: the rule that grants
        /// and each `.validate`; of a denial the rules that are not true.
        package let decides: Bool
        package let rule: Denial.FailedRule
    }

    package let isRead: Bool
    package let path: Path
    package let cause: Cause
    /// In the order in which they were evaluated.
    package let steps: [Step]
    /// Rules that were evaluated, true, and are not among the steps, because there were too many.
    package let omittedCount: Int

    package var isAllowed: Bool {
        switch cause {
        case .administrator, .open, .granted: true
        case .locked, .noRule, .notGranted, .invalid: false
        }
    }

    /// Rules with the outcome true that are kept: a large write evaluates each `.validate` once for each
    /// child.
    package static let trueStepCount = 200
}

extension Access {
    /// Traces whether the node at `path` may be read: as ``allowsRead(at:query:in:)`` decides, and far
    /// slower.
    package func traceRead(at path: Path, query: Query?, in scope: RuleScope) -> RuleTrace {
        trace(isRead: true, path, in: scope) { rules, recorder in
            rules.allowsRead(at: path, query, in: scope, &recorder) ? nil : .notGranted
        }
    }

    /// Traces whether this write is permitted: as ``allowsWrite(at:after:in:)`` decides, and far slower.
    /// - Parameter after: The whole tree after the write.
    package func traceWrite(at path: Path, after: Node, in scope: RuleScope) -> RuleTrace {
        trace(isRead: false, path, in: scope) { rules, recorder in
            rules.refusal(ofWritingAt: [path], after: after, in: scope, &recorder).map {
                $0.isGranted ? .invalid : .notGranted
            }
        }
    }

    /// - Parameter evaluate: Returns why the rules deny; nil when they do not.
    private func trace(
        isRead: Bool, _ path: Path, in scope: RuleScope,
        _ evaluate: (Ruleset, inout DenialRecorder) -> RuleTrace.Cause?
    ) -> RuleTrace {
        func withoutRules(_ cause: RuleTrace.Cause) -> RuleTrace {
            RuleTrace(isRead: isRead, path: path, cause: cause, steps: [], omittedCount: 0)
        }
        if scope.credential.isAdmin { return withoutRules(.administrator) }
        guard case .loaded(let rules) = self else {
            if case .open = self { return withoutRules(.open) }
            return withoutRules(.locked)
        }
        var recorder = DenialRecorder(trueCount: RuleTrace.trueStepCount)
        var cause = evaluate(rules, &recorder) ?? .granted
        if cause == .notGranted, recorder.isEmpty { cause = .noRule }
        let steps = zip(recorder.outcomes, recorder.failedRules(of: rules)).map { outcome, rule in
            let isDeciding =
                switch cause {
                case .granted: outcome == true
                case .invalid: outcome != true && rule.kind == .validate
                default: outcome != true
                }
            return RuleTrace.Step(outcome: outcome, decides: isDeciding, rule: rule)
        }
        return RuleTrace(
            isRead: isRead, path: path, cause: cause, steps: steps, omittedCount: recorder.omittedCount)
    }
}

extension RuleTrace {
    /// As JSON (RFC 8259): an object with `allowed`, `method`, `path`, `cause`, `rules` and `omitted`.
    package var json: [UInt8] {
        var output: [UInt8] = []
        output.append(isAllowed ? "{\"allowed\":true,\"method\":" : "{\"allowed\":false,\"method\":")
        output.append(json: isRead ? "read" : "write")
        output.append(",\"path\":")
        output.append(json: Text(Denial.spelling(of: path)))
        output.append(",\"cause\":")
        output.append(json: Text(cause.rawValue))
        output.append(",\"rules\":[")
        for (index, step) in steps.enumerated() {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            Denial.append(step.rule, step.outcome, decides: step.decides, to: &output)
        }
        output.append("],\"omitted\":")
        output.append(decimal: Int64(omittedCount))
        output.append("}")
        return output
    }
}

extension InvalidRules {
    /// The problems as the members `line`, `column` and `text` of objects in an array.
    package var json: [UInt8] {
        var output: [UInt8] = []
        output.append("[")
        for (index, problem) in problems.enumerated() {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            output.append("{\"line\":")
            output.append(decimal: Int64(problem.position.line))
            output.append(",\"column\":")
            output.append(decimal: Int64(problem.position.column))
            output.append(",\"text\":")
            output.append(json: Text(problem.text))
            output.append("}")
        }
        output.append("]")
        return output
    }
}
