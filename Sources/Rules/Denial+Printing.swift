import PandoBytes
import PandoTree

extension Denial {
    /// The explanation as lines of text, without line feeds.
    ///
    ///     write to /rooms/r1/name is refused: no .write rule on the way is true
    ///       12:20 .write of /rooms/$room, at /rooms/r1, is false
    ///           auth.uid = "u2"
    package var lines: [String] {
        let operation = isRead ? "read" : "write"
        let reason =
            switch cause {
            case .locked: "no rules are loaded"
            case .noRule: "there is no .\(operation) rule on the way"
            case .notGranted: "no .\(operation) rule on the way is true"
            case .invalid: "a .validate rule is not true"
            }
        var lines = ["\(operation) \(isRead ? "of" : "to") \(Self.spelling(of: path)) is refused: \(reason)"]
        for rule in failedRules {
            let location = Self.spelling(of: rule.location)
            var line = "  \(rule.position) \(rule.kind.rawValue) of \(rule.rule), at \(location), "
            if let failure = rule.failure {
                line += "fails: \(failure.reason) (\(failure.position) \(failure.expression))"
            } else {
                line += "is false"
            }
            lines.append(line)
            for observation in rule.observations {
                lines.append("      \(observation.expression) = \(observation.value)")
            }
        }
        return lines
    }

    /// The same as JSON (RFC 8259): an object with `operation`, `path`, `cause` and `rules`.
    package var json: [UInt8] {
        var output: [UInt8] = []
        output.append(#"{"operation":"#)
        output.append(json: isRead ? "read" : "write")
        output.append(#","path":"#)
        output.append(json: Text(Self.spelling(of: path)))
        output.append(#","cause":"#)
        output.append(json: Text(cause.rawValue))
        output.append(#","rules":["#)
        for (index, rule) in failedRules.enumerated() {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            Self.append(rule, rule.failure == nil ? false : nil, to: &output)
        }
        output.append("]}")
        return output
    }

    /// - Parameters:
    ///   - outcome: Nil for an error.
    ///   - decides: Printed unless it is nil.
    static func append(
        _ rule: FailedRule, _ outcome: Bool?, decides: Bool? = nil, to output: inout [UInt8]
    ) {
        output.append(#"{"rule":"#)
        output.append(json: Text(rule.rule))
        output.append(#","kind":"#)
        output.append(json: Text(rule.kind.rawValue))
        append(rule.position, to: &output)
        output.append(#","location":"#)
        output.append(json: Text(spelling(of: rule.location)))
        output.append(#","outcome":"#)
        output.append(json: Text(outcome.map { "\($0)" } ?? "error"))
        if let decides { output.append(decides ? #","decides":true"# : #","decides":false"#) }
        if let failure = rule.failure {
            output.append(#","error":{"reason":"#)
            output.append(json: Text(failure.reason))
            output.append(#","expression":"#)
            output.append(json: Text(failure.expression))
            append(failure.position, to: &output)
            output.append("}")
        }
        output.append(#","values":["#)
        for (index, observation) in rule.observations.enumerated() {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            output.append(#"{"expression":"#)
            output.append(json: Text(observation.expression))
            output.append(#","value":"#)
            output.append(json: Text(observation.value))
            output.append("}")
        }
        output.append("]}")
    }

    private static func append(_ position: SourcePosition, to output: inout [UInt8]) {
        output.append(#","line":"#)
        output.append(decimal: Int64(position.line))
        output.append(#","column":"#)
        output.append(decimal: Int64(position.column))
    }

    static func spelling(of path: Path) -> String {
        path.isRoot
            ? "/" : path.keys.map { "/" + cut($0.string, to: RulesLimits.quotedCharacterCount) }.joined()
    }
}
