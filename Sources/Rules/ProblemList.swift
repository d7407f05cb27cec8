import PandoBytes

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
