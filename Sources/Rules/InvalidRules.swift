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
