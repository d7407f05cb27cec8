import PandoBytes
import PandoTree

/// Why something may not be read or written: which rules were asked on the way, and what they saw.
///
/// For whoever writes the rules. It tells values of data and claims, as far as a rule mentions them, so it is
/// not for clients (rules §2.6).
package struct Denial: Sendable {
    package enum Cause: String, Sendable {
        /// No rules are loaded.
        case locked
        /// No rule for the operation stands on the way to the location.
        case noRule
        /// There are such rules, and none is true.
        case notGranted
        /// It was granted, but a `.validate` is not true.
        case invalid
    }

    /// What a part of a rule came to.
    package struct Observation: Hashable, Sendable {
        /// As it is written: `data.child('owner').val()`.
        package let expression: String
        /// As JSON, cut when it is long; `{…}` for an object.
        package let value: String
    }

    /// What went wrong in a rule that could not be evaluated.
    package struct Failure: Hashable, Sendable {
        package let reason: String
        /// The part of the rule that failed.
        package let expression: String
        package let position: SourcePosition
    }

    /// A rule that was asked and was not true.
    package struct Answer: Sendable {
        package let kind: RuleKind
        /// The node it stands at, as the rules spell it: `/rooms/$room`.
        package let rule: String
        package let position: SourcePosition
        /// The location it was asked about.
        package let location: Path
        /// Nil when the rule was plainly false.
        package let failure: Failure?
        /// In the order in which they were evaluated; at most ``Denial/observationCount``.
        package let observations: [Observation]
    }

    package let isRead: Bool
    /// The location that may not be read, or the first of those written, in order, that is refused.
    package let path: Path
    package let cause: Cause
    /// In the order in which they were asked; none above the refused location but those on the way to it.
    package let answers: [Answer]

    /// Observations told for one rule.
    package static let observationCount = 16
    /// Characters of an expression or a value that are told.
    package static let excerptCount = 100
}

extension Access {
    /// Why the node at `path` may not be read; nil when it may. Far slower than ``allowsRead(at:query:in:)``,
    /// of which it is always the opposite.
    package func explainRead(at path: Path, query: Query?, in scope: RuleScope) -> Denial? {
        if let verdict = verdict(on: scope.credential) {
            return verdict ? nil : Denial(isRead: true, path: path, cause: .locked, answers: [])
        }
        guard case .loaded(let rules) = self else { return nil }
        var witness = Witness()
        guard !rules.allowsRead(at: path, query, in: scope, &witness) else { return nil }
        let answers = witness.answers(of: rules)
        return Denial(
            isRead: true, path: path, cause: answers.isEmpty ? .noRule : .notGranted, answers: answers)
    }

    /// Why this write may not be done; nil when it may. Far slower than ``allowsWrite(at:after:in:)``, of
    /// which it is always the opposite.
    package func explainWrite(at paths: [Path], after: Node, in scope: RuleScope) -> Denial? {
        if let verdict = verdict(on: scope.credential) {
            return verdict
                ? nil : Denial(isRead: false, path: paths.first ?? .root, cause: .locked, answers: [])
        }
        guard case .loaded(let rules) = self else { return nil }
        var witness = Witness()
        guard let refusal = rules.refusal(ofWritingAt: paths, after: after, in: scope, &witness) else {
            return nil
        }
        var answers = witness.answers(of: rules)
        guard !refusal.isGranted else {
            answers.removeAll { $0.kind != .validate }
            return Denial(isRead: false, path: refusal.path, cause: .invalid, answers: answers)
        }
        return Denial(
            isRead: false, path: refusal.path, cause: answers.isEmpty ? .noRule : .notGranted,
            answers: answers)
    }
}

/// Writes down what rules say that are not true.
///
/// Most rules that are asked are true, or have nothing to do with what is refused in the end: so values are
/// only kept, and put into words when the verdict is known.
private struct Witness: RuleObserver {
    static var isObserving: Bool { true }

    private struct Answer {
        let rule: RuleExpression
        let kind: RuleKind
        let keys: [Key]
        let error: RuleError?
        let values: [(instruction: Int32, value: RuleValue)]
    }

    /// Of rules on the way to the path, no more than it has keys; and of one that is not valid, if there is
    /// one.
    private var answers: [Answer] = []
    private var program: RuleProgram?
    /// Of the rule being asked, in the order in which they came up.
    private var values: [(instruction: Int32, value: RuleValue)] = []

    mutating func willWalk(from level: Int) {
        while let last = answers.last, last.keys.count >= level { answers.removeLast() }
    }

    mutating func willAsk(_ rule: RuleExpression, _ kind: RuleKind) {
        program = rule.program
        values.removeAll(keepingCapacity: true)
    }

    mutating func didAsk(
        _ rule: RuleExpression, _ kind: RuleKind, _ outcome: Bool?, _ error: RuleError?,
        at keys: ArraySlice<Key>
    ) {
        guard outcome != true else { return }
        answers.append(Answer(rule: rule, kind: kind, keys: Array(keys), error: error, values: values))
    }

    func operand(_ instruction: Int32, _ outcome: Bool?) {}

    mutating func value(_ instruction: Int32, _ value: RuleValue) {
        guard let program, program.instructions[Int(instruction)].code.isTelling else { return }
        values.append((instruction, value))
    }

    // MARK: Words

    func answers(of rules: Ruleset) -> [Denial.Answer] {
        answers.map { answer in
            let rule = answer.rule
            var failure: Denial.Failure?
            if let error = answer.error, let range = rule.program?.ranges[Int(error.instruction)] {
                failure = Denial.Failure(
                    reason: error.reason.description, expression: rule.excerpt(range),
                    position: rules.position(ofText: range.lowerBound, in: rule))
            }
            return Denial.Answer(
                kind: answer.kind, rule: rules.spelling(of: answer.keys[...]),
                position: rules.source.position(at: rule.literal.lowerBound),
                location: Path(answer.keys), failure: failure, observations: observations(in: answer))
        }
    }

    /// Each expression once, however often it is written.
    private func observations(in answer: Answer) -> [Denial.Observation] {
        guard let program = answer.rule.program else { return [] }
        var observations: [Denial.Observation] = []
        for (instruction, value) in answer.values where observations.count < Denial.observationCount {
            let expression = answer.rule.excerpt(program.ranges[Int(instruction)])
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

/// Text on one line, cut when it is long.
func cut(_ text: String, to count: Int) -> String {
    var result = ""
    for (index, scalar) in text.unicodeScalars.enumerated() {
        guard index < count else { return result + "…" }
        result.unicodeScalars.append(scalar.endsLineOrControls ? " " : scalar)
    }
    return result
}

extension Unicode.Scalar {
    /// A control character, or one at which somebody may end a line: nothing that belongs into a log.
    var endsLineOrControls: Bool {
        switch value {
        case 0..<0x20, 0x7F..<0xA0, 0x2028, 0x2029: true
        default: false
        }
    }
}

extension RuleProgram.Code {
    /// What it comes to says something that cannot be read off the rule, and is no comparison of such.
    fileprivate var isTelling: Bool {
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
    /// As JSON, and short.
    fileprivate var excerpt: String {
        switch self {
        case .null: return "null"
        case .boolean(let value): return value ? "true" : "false"
        case .number(let value): return numberText(value)
        case .object: return "{…}"
        case .string(let text):
            var bytes: [UInt8] = []
            bytes.append(json: Text(cut(text.string, to: Denial.excerptCount)))
            return String(decoding: bytes, as: UTF8.self)
        }
    }
}

extension Ruleset {
    /// The node of the rules that speaks about a location, as they spell it: `/rooms/$room`.
    func spelling(of keys: ArraySlice<Key>) -> String {
        var node = root
        var text = ""
        for key in keys {
            let name = node.children[key] == nil ? node.wildcard?.name ?? key.text : key.text
            text += "/" + cut(name.string, to: RulesLimits.quotedCharacterCount)
            guard let next = node[key] else { break }
            node = next
        }
        return text.isEmpty ? "/" : text
    }
}
