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

    /// The same as JSON (RFC 8259): an object with `operation`, `path`, `cause`, `rules`, and `omitted` where
    /// rules were left out: how many.
    /// - Parameter byteLimit: Where the rules have more bytes than this, the first ones are left out, which
    ///   are nearer to the root. The last one always stays: it has some 16 KiB at most.
    package func json(atMost byteLimit: Int = .max) -> [UInt8] {
        var printed: [[UInt8]] = []
        var left = byteLimit
        for rule in failedRules.reversed() {
            var bytes: [UInt8] = []
            Self.append(rule, rule.failure == nil ? false : nil, to: &bytes)
            left -= bytes.count
            if left < 0, !printed.isEmpty { break }
            printed.append(bytes)
        }
        var output: [UInt8] = []
        output.append(#"{"operation":"#)
        output.append(json: isRead ? "read" : "write")
        output.append(#","path":"#)
        output.append(json: Text(Self.spelling(of: path)))
        output.append(#","cause":"#)
        output.append(json: Text(cause.rawValue))
        output.append(#","rules":["#)
        for (index, bytes) in printed.reversed().enumerated() {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            output += bytes
        }
        output.append("]")
        let omittedCount = failedRules.count - printed.count
        if omittedCount > 0 {
            output.append(#","omitted":"#)
            output.append(decimal: Int64(omittedCount))
        }
        output.append("}")
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

    /// Bytes of a path that are shown.
    private static let pathByteLimit = 512

    /// `/a/b`; long names, and a path of more than ``pathByteLimit`` bytes, end with `…`.
    static func spelling(of path: Path) -> String {
        spelling(ofNames: path.keys.lazy.map(\.string))
    }

    /// As ``spelling(of:)``. O(``pathByteLimit`` + bytes of one name).
    static func spelling(ofNames names: some Sequence<String>) -> String {
        var text = ""
        for name in names {
            text += "/" + cut(name, to: RulesLimits.quotedCharacterCount)
            if text.utf8.count > pathByteLimit { return text.prefix(byteCount: pathByteLimit) + "…" }
        }
        return text.isEmpty ? "/" : text
    }
}
