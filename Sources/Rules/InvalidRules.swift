import PandoBytes

/// One thing wrong with a rules document.
package struct RulesProblem: Hashable, Sendable, CustomStringConvertible {
    package var position: SourcePosition
    package var text: String

    package init(_ position: SourcePosition, _ text: String) {
        self.position = position
        self.text = text
    }

    /// `5:1: Parse error.`
    package var description: String { "\(position): \(text)" }
}

/// Why a document is no set of rules: everything that could be found, in the order of the document.
package struct InvalidRules: Error, Equatable, Sendable, CustomStringConvertible {
    /// At least one, at most ``RulesLimits/problemCount``.
    package let problems: [RulesProblem]

    init(_ problems: [RulesProblem]) {
        precondition(!problems.isEmpty)
        self.problems = problems
    }

    package init(_ position: SourcePosition, _ text: String) {
        self.init([RulesProblem(position, text)])
    }

    /// What the `error` of a refused upload holds: a line for each problem, each with its line feed (§8).
    package var description: String {
        problems.map { "\($0)\n" }.joined()
    }
}

/// The problems of one loading. Whoever checks a part of the document puts its own in.
struct ProblemList {
    /// At byte offsets until all are known; in the order in which they were found.
    private var found: [(offset: Int, text: String)] = []

    var isEmpty: Bool { found.isEmpty }

    /// False when as many as will be told are known. Finding the place of one costs a walk over the rule it
    /// is in.
    var hasRoom: Bool { found.count < RulesLimits.problemCount }

    mutating func add(_ text: String, at offset: Int) {
        found.append((offset, text))
    }

    /// All of it as an error, by position; those at one place in the order in which they were found.
    func error(in source: RulesSource) -> InvalidRules {
        var ruler = SourceRuler(source)
        let order = found.indices.sorted { (found[$0].offset, $0) < (found[$1].offset, $1) }
        return InvalidRules(
            order.prefix(RulesLimits.problemCount).map { index in
                RulesProblem(ruler.position(at: found[index].offset), found[index].text)
            })
    }
}

/// A name as a problem repeats it: on one line, and not a long one.
func quoted(_ name: Text) -> String {
    var result = "'"
    for (count, scalar) in name.string.unicodeScalars.enumerated() {
        guard count < RulesLimits.quotedCharacterCount else {
            result += "…"
            break
        }
        result.unicodeScalars.append(scalar.endsLineOrControls ? " " : scalar)
    }
    return result + "'"
}
