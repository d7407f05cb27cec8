import PandoBytes
import PandoTree

/// Counts the results of the rules of one ruleset, to find those that were never evaluated, or never both
/// true and false.
///
/// Not `Sendable`: used by one thread.
package final class RuleCoverage {
    /// How often a rule or an operand was true, false or an error.
    package struct Tally: Hashable, Sendable {
        package var trueCount = 0
        package var falseCount = 0
        package var errorCount = 0

        package var total: Int { trueCount + falseCount + errorCount }

        fileprivate mutating func count(_ outcome: Bool?) {
            switch outcome {
            case true?: trueCount += 1
            case false?: falseCount += 1
            case nil: errorCount += 1
            }
        }
    }

    /// A part of a rule that decides: an operand of `&&`, `||` or `!`, or the condition of a `?`.
    package struct Operand: Sendable {
        package let position: SourcePosition
        /// The operand as the rule spells it, shortened.
        package let text: String
        package let tally: Tally
    }

    package struct Entry: Sendable {
        package let kind: RuleKind
        /// The rule's node: `/rooms/$room`.
        package let rule: String
        package let position: SourcePosition
        /// The rule is a constant, so it cannot have another result.
        package let isConstant: Bool
        package let tally: Tally
        /// In the order of the text.
        package let operands: [Operand]
    }

    private let rules: Ruleset
    fileprivate var tallies: [Tally] = []
    /// For each rule the results of its operands, by instruction.
    fileprivate var operands: [[Int32: Tally]] = []

    package init(of rules: Ruleset) {
        self.rules = rules
    }

    fileprivate func count(_ rule: Int, _ outcome: Bool?) {
        extendTables(to: rule)
        tallies[rule].count(outcome)
    }

    fileprivate func count(_ rule: Int, _ instruction: Int32, _ outcome: Bool?) {
        extendTables(to: rule)
        operands[rule][instruction, default: Tally()].count(outcome)
    }

    private func extendTables(to rule: Int) {
        while tallies.count <= rule {
            tallies.append(Tally())
            operands.append([:])
        }
    }

    // MARK: Report

    /// Every rule, in the order of the document. O(document × depth).
    package var entries: [Entry] {
        var found: [(rule: RuleExpression, kind: RuleKind, place: String)] = []
        func visit(_ node: RuleNode, _ place: String) {
            for (rule, kind) in [
                (node.read, RuleKind.read), (node.write, .write), (node.validate, .validate),
            ] {
                if let rule { found.append((rule, kind, place.isEmpty ? "/" : place)) }
            }
            for (key, child) in node.childrenInOrder { visit(child, place + "/" + short(key.text)) }
            if let wildcard = node.wildcard { visit(wildcard.node, place + "/" + short(wildcard.name)) }
        }
        visit(rules.root, "")
        var ruler = SourceRuler(rules.source)
        return found.sorted { $0.rule.number < $1.rule.number }.map { rule, kind, place in
            extendTables(to: rule.number)
            let position = ruler.position(at: rule.literal.lowerBound)
            return Entry(
                kind: kind, rule: place, position: position, isConstant: rule.program == nil,
                tally: tallies[rule.number], operands: operands(of: rule, &ruler))
        }
    }

    private func short(_ name: Text) -> String { cut(name.string, to: RulesLimits.quotedCharacterCount) }

    private func operands(of rule: RuleExpression, _ ruler: inout SourceRuler) -> [Operand] {
        guard let program = rule.program else { return [] }
        let inOrder = program.operands.sorted {
            let (a, b) = (program.ranges[Int($0)], program.ranges[Int($1)])
            return (a.lowerBound, b.upperBound, $0) < (b.lowerBound, a.upperBound, $1)
        }
        return inOrder.map { instruction in
            let range = program.ranges[Int(instruction)]
            let bytes = rule.text.string.utf8.dropFirst(range.lowerBound).prefix(range.count)
            let offset = rules.source.offset(ofText: range.lowerBound, in: rule.literal)
            return Operand(
                position: ruler.position(at: offset),
                text: cut(String(decoding: bytes, as: UTF8.self), to: Denial.excerptCount),
                tally: operands[rule.number][instruction] ?? Tally())
        }
    }

    /// What tests do not cover, a line each: rules that were never evaluated, never true or never false, and
    /// likewise the operands of rules that were evaluated.
    package var lines: [String] {
        entries.flatMap { entry -> [String] in
            let name = "\(entry.position) \(entry.kind.rawValue) of \(entry.rule)"
            guard entry.tally.total > 0 else { return ["\(name) was never evaluated"] }
            guard !entry.isConstant else { return [] }
            var lines = Self.gaps(in: entry.tally).map { "\(name) was \($0)" }
            for operand in entry.operands {
                let name = "\(operand.position) \(operand.text)"
                if operand.tally.total == 0 {
                    lines.append("\(name) was never evaluated")
                } else {
                    lines += Self.gaps(in: operand.tally).map { "\(name) was \($0)" }
                }
            }
            return lines
        }
    }

    private static func gaps(in tally: Tally) -> [String] {
        (tally.trueCount == 0 ? ["never true"] : []) + (tally.falseCount == 0 ? ["never false"] : [])
            + (tally.errorCount > 0 ? ["an error \(tally.errorCount) times"] : [])
    }
}

extension Access {
    /// As ``allowsRead(at:query:in:)``, and counts the results of the rules.
    /// - Parameter coverage: Made for the same ruleset.
    package func allowsRead(
        at path: Path, query: Query?, in scope: RuleScope, recording coverage: RuleCoverage
    ) -> Bool {
        guard case .loaded(let rules) = self, !scope.credential.isAdmin else {
            return allowsRead(at: path, query: query, in: scope)
        }
        var counter = Counter(coverage: coverage)
        return rules.allowsRead(at: path, query, in: scope, &counter)
    }

    /// As ``allowsWrite(at:after:in:)``, and counts the results of the rules.
    /// - Parameter coverage: Made for the same ruleset.
    package func allowsWrite(
        at paths: [Path], after: Node, in scope: RuleScope, recording coverage: RuleCoverage
    ) -> Bool {
        guard case .loaded(let rules) = self, !scope.credential.isAdmin else {
            return allowsWrite(at: paths, after: after, in: scope)
        }
        var counter = Counter(coverage: coverage)
        return rules.refusal(ofWritingAt: paths, after: after, in: scope, &counter) == nil
    }
}

private struct Counter: RuleObserver {
    static var isObserving: Bool { true }

    let coverage: RuleCoverage
    private var rule = 0

    init(coverage: RuleCoverage) {
        self.coverage = coverage
    }

    func willWalk(from level: Int) {}

    mutating func willEvaluate(_ rule: RuleExpression, _ kind: RuleKind) { self.rule = rule.number }

    func didEvaluate(
        _ rule: RuleExpression, _ kind: RuleKind, _ outcome: Bool?, _ error: RuleError?,
        at keys: ArraySlice<Key>
    ) {
        coverage.count(rule.number, outcome)
    }

    func operand(_ instruction: Int32, _ outcome: Bool?) { coverage.count(rule, instruction, outcome) }

    func value(_ instruction: Int32, _ value: RuleValue) {}
}
