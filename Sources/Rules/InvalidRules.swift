import PandoBytes

/// One problem of a rules document.
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

/// An invalid rules document: all problems that were found, in the order of the document.
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

    /// The `error` of a refused upload: a line with a line feed for each problem (§8).
    package var description: String {
        problems.map { "\($0)\n" }.joined()
    }
}

/// The problems that were found while a document is loaded.
struct ProblemList {
    /// With byte offsets, in the order in which they were found.
    private var found: [(offset: Int, text: String)] = []

    var isEmpty: Bool { found.isEmpty }

    /// Whether more problems will be reported. To find the position of one costs a walk over its rule.
    var hasSpace: Bool { found.count < RulesLimits.problemCount }

    mutating func add(_ text: String, at offset: Int) {
        found.append((offset, text))
    }

    /// All problems as an error, by position; at one position in the order in which they were found.
    func error(in source: RulesSource) -> InvalidRules {
        var ruler = SourceRuler(source)
        let order = found.indices.sorted { (found[$0].offset, $0) < (found[$1].offset, $1) }
        return InvalidRules(
            order.prefix(RulesLimits.problemCount).map { index in
                RulesProblem(ruler.position(at: found[index].offset), found[index].text)
            })
    }
}

/// A name as it is quoted in a problem: on one line, shortened.
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
