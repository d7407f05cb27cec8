/// Why a pattern is invalid, and at which of its characters.
struct IllegalPattern: Error, Equatable {
    var text: String
    var position: Int

    init(_ text: String, at position: Int) {
        self.text = text
        self.position = position
    }
}

/// A parsed pattern, from which a ``PatternProgram`` is made.
indirect enum PatternTree: Equatable {
    /// One character out of a set.
    case scalar(ScalarSet)
    /// A sequence. Without elements it is the empty text.
    case sequence([PatternTree])
    case either([PatternTree])
    /// A repetition: at least `minimum` times; at most `maximum` times, unless that is nil.
    case repeated(PatternTree, minimum: Int, maximum: Int?)
}

/// Parses the patterns of `matches(/…/)` (rules §9). They have no look-around, no references and nothing else
/// that would need backtracking.
///
///     regex  = [ "^" ] [ meta ] alt [ "$" ]
///     alt    = seq { "|" seq }
///     seq    = item { item }
///     item   = atom { "*" | "+" | "?" | "{" n [ "," [ m ] ] "}" }
///     atom   = char | "." | class | "[" [ "^" ] ( range | char | class )+ "]" | "(" [ meta ] alt ")"
///     meta   = "|" | ")" | "?" | "+" | "*" | "{" | "}"      a literal, being first
///
/// Where the grammar of production leaves a choice: a `(` is always a group, since nested groups are in wide
/// use; `^$`, `^` and `$` alone have the obvious meaning; `\n`, `\t`, `\r`, `\f`, `\v`, `\xHH` and `\uHHHH`
/// are the characters that they are in JavaScript; and an escaped letter that would mean something else there
/// (`\b`, `\1`, `\p`…) is refused rather than misread. Characters are Unicode scalars, not UTF-16 units.
struct PatternParser {
    private let scalars: [Unicode.Scalar]
    private var index = 0
    private let ignoresCase: Bool
    private var depth = 0

    /// The nesting of groups. It bounds the recursion of parsing and of visiting the tree.
    static let groupDepth = 64
    /// Quantifiers behind one atom. Each makes the tree a level deeper.
    static let quantifierCount = 4
    /// The largest bound of a repetition. A larger one would exceed the limit of states.
    static let repetition = 10_000

    struct Result: Equatable {
        var tree: PatternTree
        var isAnchoredAtStart: Bool
        var isAnchoredAtEnd: Bool
    }

    static func parse(_ text: String, ignoresCase: Bool) throws(IllegalPattern) -> Result {
        var parser = PatternParser(scalars: Array(text.unicodeScalars), ignoresCase: ignoresCase)
        return try parser.parse()
    }

    private init(scalars: [Unicode.Scalar], ignoresCase: Bool) {
        self.scalars = scalars
        self.ignoresCase = ignoresCase
    }

    private mutating func parse() throws(IllegalPattern) -> Result {
        let isAnchoredAtStart = consume("^")
        var isAnchoredAtEnd = false
        var tree = PatternTree.sequence([])
        if index < scalars.count, !isAtFinalDollar { tree = try parseAlternatives() }
        if isAtFinalDollar {
            index += 1
            isAnchoredAtEnd = true
        }
        guard index == scalars.count else { throw unexpected("end of pattern") }
        guard tree != .sequence([]) || isAnchoredAtStart || isAnchoredAtEnd else {
            throw unexpected("a character")
        }
        return Result(tree: tree, isAnchoredAtStart: isAnchoredAtStart, isAnchoredAtEnd: isAnchoredAtEnd)
    }

    private mutating func parseAlternatives() throws(IllegalPattern) -> PatternTree {
        var alternatives: [PatternTree] = []
        repeat {
            alternatives.append(try parseSequence(isFirst: alternatives.isEmpty))
        } while consume("|")
        return alternatives.count == 1 ? alternatives[0] : .either(alternatives)
    }

    private mutating func parseSequence(isFirst: Bool) throws(IllegalPattern) -> PatternTree {
        var items: [PatternTree] = []
        while let next = peek, isFirst && items.isEmpty || (next != "|" && next != ")"), !isAtFinalDollar {
            items.append(try parseItem(isFirst: isFirst && items.isEmpty))
        }
        // An alternative without a character is refused.
        guard !items.isEmpty else { throw unexpected("a character") }
        return items.count == 1 ? items[0] : .sequence(items)
    }

    private mutating func parseItem(isFirst: Bool) throws(IllegalPattern) -> PatternTree {
        var item = try parseAtom(isFirst: isFirst)
        for _ in 0..<Self.quantifierCount {
            switch peek {
            case "*": item = .repeated(item, minimum: 0, maximum: nil)
            case "+": item = .repeated(item, minimum: 1, maximum: nil)
            case "?": item = .repeated(item, minimum: 0, maximum: 1)
            case "{":
                item = try parseBounds(of: item)
                continue
            default: return item
            }
            index += 1
        }
        return item
    }

    private mutating func parseBounds(of item: PatternTree) throws(IllegalPattern) -> PatternTree {
        let start = index
        index += 1
        let minimum = try parseNumber()
        var maximum: Int? = minimum
        if consume(",") { maximum = peek == "}" ? nil : try parseNumber() }
        try expect("}")
        if let maximum, maximum < minimum {
            throw IllegalPattern(illegal("the bounds of a repetition are out of order"), at: start)
        }
        return .repeated(item, minimum: minimum, maximum: maximum)
    }

    private mutating func parseNumber() throws(IllegalPattern) -> Int {
        let start = index
        var value = 0
        while let digit = peek.flatMap({ $0.value >= 0x30 && $0.value <= 0x39 ? Int($0.value - 0x30) : nil })
        {
            value = value * 10 + digit
            guard value <= Self.repetition else {
                throw IllegalPattern(illegal("more than \(Self.repetition) repetitions"), at: start)
            }
            index += 1
        }
        guard index > start else { throw unexpected("a number") }
        return value
    }

    // MARK: Atoms

    private mutating func parseAtom(isFirst: Bool) throws(IllegalPattern) -> PatternTree {
        guard let next = peek else { throw unexpected("a character") }
        switch next {
        case "(":
            index += 1
            try enter()
            let group = try parseAlternatives()
            try expect(")")
            depth -= 1
            return group
        case "[": return .scalar(try parseSet())
        case ".":
            index += 1
            return .scalar(.anyButLineFeed)
        case "\\": return .scalar(folded(try parseEscape()))
        case "^", "$":
            throw IllegalPattern(illegal("'\(next)' may stand only at an end of the pattern"), at: index)
        case "|", ")", "?", "+", "*", "{":
            guard isFirst else { throw unexpected("a character") }
            fallthrough
        default:
            index += 1
            return .scalar(folded(ScalarSet([next.value...next.value])))
        }
    }

    private mutating func parseSet() throws(IllegalPattern) -> ScalarSet {
        try expect("[")
        let isInverted = consume("^")
        var members: [ClosedRange<UInt32>] = []
        while peek != "]" || members.isEmpty {
            guard peek != "]" else { throw unexpected("a character") }
            let start = index
            let first = try parseMember()
            members += first.ranges
            // A hyphen at an end of the set, or beside a class, is a literal.
            guard peek == "-", index + 1 < scalars.count, scalars[index + 1] != "]",
                let low = first.single
            else { continue }
            index += 1
            let second = try parseMember()
            guard let high = second.single else {
                members += [0x2D...0x2D] + second.ranges
                continue
            }
            guard low <= high else { throw IllegalPattern(illegal("a range is out of order"), at: start) }
            members.append(low...high)
        }
        try expect("]")
        let set = folded(ScalarSet(members))
        return isInverted ? set.inverted : set
    }

    private mutating func parseMember() throws(IllegalPattern) -> ScalarSet {
        guard let next = peek else { throw unexpected("']'") }
        if next == "\\" { return try parseEscape() }
        index += 1
        return ScalarSet([next.value...next.value])
    }

    /// A class, or an escaped character.
    private mutating func parseEscape() throws(IllegalPattern) -> ScalarSet {
        let start = index
        index += 1
        guard let name = peek else { throw unexpected("a character") }
        index += 1
        switch name {
        case "s": return .space
        case "S": return ScalarSet.space.inverted
        case "w": return .wordCharacters
        case "W": return ScalarSet.wordCharacters.inverted
        case "d": return .digits
        case "D": return ScalarSet.digits.inverted
        case "n": return ScalarSet(of: "\n")
        case "t": return ScalarSet(of: "\t")
        case "r": return ScalarSet(of: "\r")
        case "f": return ScalarSet(of: "\u{0C}")
        case "v": return ScalarSet(of: "\u{0B}")
        case "x": return try parseHexadecimal(digitCount: 2, from: start)
        case "u": return try parseHexadecimal(digitCount: 4, from: start)
        case "b", "B", "p", "P", "k", "c", "0"..."9":
            throw IllegalPattern(illegal("'\\\(name)' is not supported"), at: start)
        default: return ScalarSet([name.value...name.value])
        }
    }

    private mutating func parseHexadecimal(digitCount: Int, from start: Int) throws(IllegalPattern)
        -> ScalarSet
    {
        var value: UInt32 = 0
        for _ in 0..<digitCount {
            guard let digit = peek.flatMap({ Character($0).hexDigitValue }), peek?.isASCII ?? false else {
                throw unexpected("a hexadecimal digit")
            }
            value = value << 4 | UInt32(digit)
            index += 1
        }
        guard Unicode.Scalar(value) != nil else {
            throw IllegalPattern(illegal("half of a surrogate pair is no character"), at: start)
        }
        return ScalarSet([value...value])
    }

    private func folded(_ set: ScalarSet) -> ScalarSet { ignoresCase ? set.ignoringCase : set }

    // MARK: Characters

    private var peek: Unicode.Scalar? { index < scalars.count ? scalars[index] : nil }

    private var isAtFinalDollar: Bool { depth == 0 && index == scalars.count - 1 && scalars[index] == "$" }

    private mutating func consume(_ scalar: Unicode.Scalar) -> Bool {
        guard peek == scalar else { return false }
        index += 1
        return true
    }

    private mutating func expect(_ scalar: Unicode.Scalar) throws(IllegalPattern) {
        guard consume(scalar) else { throw unexpected("'\(scalar)'") }
    }

    private mutating func enter() throws(IllegalPattern) {
        depth += 1
        guard depth <= Self.groupDepth else {
            throw IllegalPattern(illegal("more than \(Self.groupDepth) groups within each other"), at: index)
        }
    }

    private func unexpected(_ what: String) -> IllegalPattern {
        IllegalPattern(illegal("expected \(what) at position \(index)"), at: index)
    }

    private func illegal(_ reason: String) -> String { "Illegal regular expression, \(reason)" }
}

extension ScalarSet {
    /// The member of a set with only one.
    fileprivate var single: UInt32? {
        ranges.count == 1 && ranges[0].count == 1 ? ranges[0].lowerBound : nil
    }
}
