import PandoBytes
import PandoTree

/// Why a read or a write is denied: the rules that were evaluated, and the values that they used.
///
/// For the authors of rules. It contains values of data and claims that a rule mentions, so it must not be
/// sent to clients (rules §2.6).
package struct Denial: Sendable {
    package enum Cause: String, Sendable {
        /// No rules are loaded.
        case locked
        /// There is no rule for the operation between the root and the location.
        case noRule
        /// There are such rules, but none is true.
        case notGranted
        /// A rule granted the write, but a `.validate` rule is not true.
        case invalid
    }

    /// The value of a part of a rule.
    package struct Observation: Hashable, Sendable {
        /// The part as the rule spells it: `data.child('owner').val()`.
        package let expression: String
        /// As JSON, shortened when it is long; `{…}` for an object.
        package let value: String
    }

    /// The error of a rule that could not be evaluated.
    package struct Failure: Hashable, Sendable {
        package let reason: String
        /// The part of the rule that failed.
        package let expression: String
        package let position: SourcePosition
    }

    /// A rule that was evaluated: of a denial one that was not true, of a ``RuleTrace`` any.
    package struct FailedRule: Sendable {
        package let kind: RuleKind
        /// The rule's node, as the rules spell it: `/rooms/$room`.
        package let rule: String
        package let position: SourcePosition
        /// The location it was evaluated for.
        package let location: Path
        /// Nil when there was no error.
        package let failure: Failure?
        /// In the order in which they were evaluated; at most ``Denial/observationCount``.
        package let observations: [Observation]
    }

    package let isRead: Bool
    /// The location that may not be read, or the first of those written, in order, that is refused.
    package let path: Path
    package let cause: Cause
    /// In the order in which they were evaluated: those on the path to the refused location.
    package let failedRules: [FailedRule]

    /// Observations that are shown for one rule.
    package static let observationCount = 16
    /// Characters of an expression or a value that are shown.
    package static let excerptCount = 100
}

extension Access {
    /// Why the node at `path` may not be read; nil when it may. Always nil when
    /// ``allowsRead(at:query:in:)`` is true and never when it is false, but far slower.
    /// - Parameter stepLimit: Steps after which a rule counts as denying, for too much work.
    package func explainRead(
        at path: Path, query: Query?, in scope: RuleScope, stepLimit: Int = RulesLimits.requestStepCount
    ) -> Denial? {
        if let isAllowed = decisionWithoutRules(for: scope.credential) {
            return isAllowed ? nil : Denial(isRead: true, path: path, cause: .locked, failedRules: [])
        }
        guard case .loaded(let rules) = self else { return nil }
        var recorder = DenialRecorder()
        var left = stepLimit
        guard !rules.allowsRead(at: path, query, in: scope, &recorder, spending: &left) else { return nil }
        let failedRules = recorder.failedRules(of: rules)
        return Denial(
            isRead: true, path: path, cause: failedRules.isEmpty ? .noRule : .notGranted,
            failedRules: failedRules)
    }

    /// Why this write is denied; nil when it is permitted. Always nil when ``allowsWrite(at:after:in:)`` is
    /// true and never when it is false, but far slower.
    /// - Parameter stepLimit: Steps after which a rule counts as denying, for too much work.
    package func explainWrite(
        at paths: [Path], after: Node, in scope: RuleScope, stepLimit: Int = RulesLimits.requestStepCount
    ) -> Denial? {
        if let isAllowed = decisionWithoutRules(for: scope.credential) {
            return isAllowed
                ? nil : Denial(isRead: false, path: paths.first ?? .root, cause: .locked, failedRules: [])
        }
        guard case .loaded(let rules) = self else { return nil }
        var recorder = DenialRecorder()
        var left = stepLimit
        guard
            let refusal = rules.refusal(
                ofWritingAt: paths, after: after, in: scope, &recorder, spending: &left)
        else { return nil }
        var failedRules = recorder.failedRules(of: rules)
        guard !refusal.isGranted else {
            failedRules.removeAll { $0.kind != .validate }
            return Denial(isRead: false, path: refusal.path, cause: .invalid, failedRules: failedRules)
        }
        return Denial(
            isRead: false, path: refusal.path, cause: failedRules.isEmpty ? .noRule : .notGranted,
            failedRules: failedRules)
    }
}

/// Records the rules that were evaluated and not true, and some of the others where that is asked for.
///
/// Most rules are true, or do not matter for the denial in the end. So the values are only stored, and turned
/// into text when the decision is known.
struct DenialRecorder: RuleObserver {
    static var isObserving: Bool { true }

    private struct Evaluation {
        let rule: RuleExpression
        let kind: RuleKind
        let keys: [Key]
        let outcome: Bool?
        let error: RuleError?
        let values: [(instruction: Int32, value: RuleValue)]
    }

    /// For the rules on the way to the path, at most one for each key; for a `.validate` rule that is not
    /// true; and for at most `trueCount` others.
    private var evaluations: [Evaluation] = []
    private var program: RuleProgram?
    /// The values of the rule that is being evaluated, in the order of evaluation.
    private var values: [(instruction: Int32, value: RuleValue)] = []
    /// How many more rules that are true may be recorded.
    private var trueCount: Int
    /// Rules that were true and not recorded.
    private(set) var omittedCount = 0

    /// - Parameter trueCount: How many rules that are true are recorded, too.
    init(trueCount: Int = 0) {
        self.trueCount = trueCount
    }

    var isEmpty: Bool { evaluations.isEmpty }

    /// In the order of ``failedRules(of:)``; nil for an error.
    var outcomes: [Bool?] { evaluations.map(\.outcome) }

    mutating func willWalk(from level: Int) {
        while let last = evaluations.last, last.keys.count >= level { evaluations.removeLast() }
    }

    mutating func willEvaluate(_ rule: RuleExpression, _ kind: RuleKind) {
        program = rule.program
        values.removeAll(keepingCapacity: true)
    }

    mutating func didEvaluate(
        _ rule: RuleExpression, _ kind: RuleKind, _ outcome: Bool?, _ error: RuleError?,
        at keys: ArraySlice<Key>
    ) {
        if outcome == true {
            guard trueCount > 0 else { return omittedCount += 1 }
            trueCount -= 1
        }
        evaluations.append(
            Evaluation(
                rule: rule, kind: kind, keys: Array(keys), outcome: outcome, error: error, values: values))
    }

    func operand(_ instruction: Int32, _ outcome: Bool?) {}

    mutating func value(_ instruction: Int32, _ value: RuleValue) {
        guard let program, program.instructions[Int(instruction)].code.isInformative else { return }
        values.append((instruction, value))
    }

    // MARK: Text

    func failedRules(of rules: Ruleset) -> [Denial.FailedRule] {
        // A rule may have been evaluated many times, and to find its position costs a walk over the source.
        var positions: [Int: SourcePosition] = [:]
        return evaluations.map { evaluation in
            let rule = evaluation.rule
            let position = positions[rule.number] ?? rules.source.position(at: rule.literal.lowerBound)
            positions[rule.number] = position
            var failure: Denial.Failure?
            if let error = evaluation.error, let range = rule.program?.ranges[Int(error.instruction)] {
                failure = Denial.Failure(
                    reason: error.reason.description, expression: rule.excerpt(range),
                    position: rules.position(ofText: range.lowerBound, in: rule))
            }
            return Denial.FailedRule(
                kind: evaluation.kind, rule: rules.spelling(of: evaluation.keys[...]),
                position: position,
                location: Path(evaluation.keys), failure: failure, observations: observations(in: evaluation))
        }
    }

    /// Each expression once, however often the rule repeats it.
    private func observations(in evaluation: Evaluation) -> [Denial.Observation] {
        guard let program = evaluation.rule.program else { return [] }
        var observations: [Denial.Observation] = []
        for (instruction, value) in evaluation.values where observations.count < Denial.observationCount {
            let expression = evaluation.rule.excerpt(program.ranges[Int(instruction)])
            guard !observations.contains(where: { $0.expression == expression }) else { continue }
            observations.append(Denial.Observation(expression: expression, value: value.excerpt))
        }
        return observations
    }
}

extension RuleExpression {
    /// A part of the text.
    fileprivate func excerpt(_ range: Range<Int>) -> String {
        let bytes = text.string.utf8.dropFirst(range.lowerBound).prefix(range.count)
        return cut(String(decoding: bytes, as: UTF8.self), to: Denial.excerptCount)
    }
}

/// Text on one line, shortened to `count` characters.
func cut(_ text: String, to count: Int) -> String {
    var result = ""
    for (index, scalar) in text.unicodeScalars.enumerated() {
        guard index < count else { return result + "…" }
        result.unicodeScalars.append(scalar.endsLineOrControls ? " " : scalar)
    }
    return result
}

extension Unicode.Scalar {
    /// A control character, or a line separator: not to be logged.
    var endsLineOrControls: Bool {
        switch value {
        case 0..<0x20, 0x7F..<0xA0, 0x2028, 0x2029: true
        default: false
        }
    }
}

extension RuleProgram.Code {
    /// Whether the value of the instruction is informative: it depends on the request, and is no comparison.
    fileprivate var isInformative: Bool {
        switch self {
        case .now, .key, .auth, .uid, .claim, .claimMember, .query, .value, .priority, .exists, .isString,
            .isNumber,
            .isBoolean, .hasChildren, .hasAllChildren, .contains, .beginsWith, .endsWith, .replace,
            .toLowerCase,
            .toUpperCase, .matches, .length, .add, .subtract, .multiply, .divide, .remainder, .negate:
            true
        case .null, .boolean, .number, .string, .base, .child, .childByKey, .childByText, .parent, .aboveRoot,
            .equal, .notEqual,
            .less, .lessOrEqual, .greater, .greaterOrEqual, .not, .and, .or, .choice:
            false
        }
    }
}

extension RuleValue {
    /// The value as JSON, shortened.
    fileprivate var excerpt: String {
        switch self {
        case .null: return "null"
        case .boolean(let value): return value ? "true" : "false"
        case .number(let value): return numberText(value)
        case .object: return "{…}"
        case .string(let text):
            var bytes: [UInt8] = []
            // A part of it: a text may have megabytes.
            let start = text.withBytes {
                Text(decoding: $0.extracting(..<min($0.count, 16 * Denial.excerptCount)))
            }
            bytes.append(json: Text(cut(start.string, to: Denial.excerptCount)))
            return String(decoding: bytes, as: UTF8.self)
        }
    }
}

extension Ruleset {
    /// The path of the rules for a location, as the document spells it: `/rooms/$room`.
    func spelling(of keys: ArraySlice<Key>) -> String {
        var node: RuleNode? = root
        var names: [String] = []
        for key in keys {
            guard let parent = node else { break }
            let name = parent.children[key] == nil ? parent.wildcard?.name ?? key.text : key.text
            names.append(name.string)
            node = parent[key]
        }
        return Denial.spelling(ofNames: names)
    }
}
