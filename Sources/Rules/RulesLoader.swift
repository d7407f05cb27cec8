import PandoBytes
import PandoTree

/// Loads a rules document in one pass, and reports all of its problems (rules §1.2, §8).
///
///     document   { "rules": node }
///     node       { ".read" | ".write" | ".validate": true, false or "expression"
///                  ".indexOn": "path" or [ "path" … ]
///                  "$name": node           at most one
///                  "name": node … }
///
/// JSON that is invalid as rules is reported, and the loading continues. Invalid JSON ends it. Expressions
/// are compiled at once. The recursion is as deep as the document, which ``RulesLimits/pathDepth`` bounds.
struct RulesLoader {
    private let source: RulesSource
    private var lexer: RulesLexer
    /// The next token.
    private var token = RulesToken(kind: .end, range: 0..<0)
    private var problems = ProblemList()
    /// The number of open arrays and objects.
    private var depth = 0
    /// The names that the wildcards above bind, outermost first, with the depths of their keys.
    private var variables: [(name: Text, depth: Int)] = []
    /// The number of keys above the current node.
    private var level = 0
    private var ruleCount = 0
    private var budget = ExpressionBudget()

    private init(_ source: RulesSource) {
        self.source = source
        lexer = RulesLexer(source)
    }

    /// Loads the rules. O(bytes).
    /// - Throws: All problems.
    static func load(_ source: RulesSource) throws(InvalidRules) -> RuleNode {
        var loader = RulesLoader(source)
        var root: RuleNode?
        do {
            try loader.advance()
            root = try loader.readDocument()
        } catch {
            loader.problems.add(error.text, at: error.offset)
        }
        guard let root, loader.problems.isEmpty else { throw loader.problems.error(in: source) }
        return root
    }

    // MARK: Rules

    /// Nil only when a problem was reported.
    private mutating func readDocument() throws(SyntaxError) -> RuleNode? {
        guard token.kind == .openObject else { throw parseError() }
        var root: RuleNode?
        var hasRules = false
        var strays: [(name: Text, offset: Int)] = []
        let end = try readMembers { (loader, name, offset) throws(SyntaxError) in
            if name == "rules" {
                hasRules = true
                root = try loader.readNode()
            } else {
                strays.append((name, offset))
                try loader.skipValue()
            }
        }
        if hasRules {
            for stray in strays {
                problems.add("Unexpected property \(quoted(stray.name)).", at: stray.offset)
            }
        } else {
            problems.add("Expected 'rules' property.", at: strays.first?.offset ?? end)
        }
        guard token.kind == .end else { throw parseError() }
        return root
    }

    private mutating func readNode() throws(SyntaxError) -> RuleNode? {
        guard token.kind == .openObject else {
            try rejectNode()
            return nil
        }
        var parts = RuleNode.Parts()
        _ = try readMembers { (loader, name, offset) throws(SyntaxError) in
            switch name {
            case ".read": parts.read = try loader.readExpression(.read)
            case ".write": parts.write = try loader.readExpression(.write)
            case ".validate": parts.validate = try loader.readExpression(.validate)
            case ".indexOn": parts.indexes = try loader.readIndexes()
            default: try loader.readChild(name, at: offset, into: &parts)
            }
        }
        return RuleNode(parts)
    }

    private mutating func readChild(
        _ name: Text, at offset: Int, into parts: inout RuleNode.Parts
    ) throws(SyntaxError) {
        // Before the name: the original service checks the value first (`"//": "text"` lacks a brace).
        guard token.kind == .openObject else { return try rejectNode() }
        guard name.firstByte == UInt8(ascii: "$") else {
            check(name: name, at: offset)
            level += 1
            defer { level -= 1 }
            if let node = try readNode() { parts.children[Key(unchecked: name)] = node }
            return
        }
        if name.utf8Count > 1 { check(name: Text(String(name.string.dropFirst())), at: offset) }
        if let first = parts.wildcard?.name {
            problems.add(
                "Cannot have multiple default rules (\(quoted(first)) and \(quoted(name))).", at: offset)
        }
        if variables.contains(where: { $0.name == name }) {
            problems.add("Variable \(quoted(name)) is already defined by a rule above.", at: offset)
        }
        variables.append((name, level))
        level += 1
        let node = try readNode()
        level -= 1
        variables.removeLast()
        if let node, parts.wildcard == nil { parts.wildcard = RuleNode.Wildcard(name: name, node: node) }
    }

    private mutating func check(name: Text, at offset: Int) {
        guard !Key.isLegal(name) else { return }
        let isPunctuated = name.string.utf8.contains { Array(".#$/[]".utf8).contains($0) }
        let limit = Limits.keyByteCount
        problems.add(
            isPunctuated
                ? ##"String can't contain ".", "#", "$", "/", "[", or "]""##
                : "Invalid key \(quoted(name)): it must be 1 to \(limit) bytes without control characters.",
            at: offset)
    }

    private mutating func readExpression(_ kind: RuleKind) throws(SyntaxError) -> RuleExpression? {
        let literal = token.range
        let text: Text
        var outcome: ExpressionCompiler.Outcome?
        switch token.kind {
        case .true:
            text = "true"
            outcome = .constant(true)
        case .false:
            text = "false"
            outcome = .constant(false)
        case .string(let string):
            text = string
            outcome = compile(string, kind, literal)
        default:
            try reject("Invalid rule expression.  Expected 'true', 'false', or an expression string.")
            return nil
        }
        try advance()
        let number = ruleCount
        ruleCount += 1
        switch outcome {
        case .constant(let value):
            return RuleExpression(text: text, literal: literal, constant: value, program: nil, number: number)
        case .program(let program):
            return RuleExpression(
                text: text, literal: literal, constant: nil, program: program, number: number)
        case nil: return nil
        }
    }

    /// Nil when problems were reported.
    private mutating func compile(_ text: Text, _ kind: RuleKind, _ literal: Range<Int>) -> ExpressionCompiler
        .Outcome?
    {
        var found: [(text: String, offset: Int)] = []
        let outcome = ExpressionCompiler.compile(
            text, kind: kind, variables: variables, depth: level, budget: &budget, problems: &found)
        for problem in found where problems.hasSpace {
            problems.add(problem.text, at: source.offset(ofText: problem.offset, in: literal))
        }
        return outcome
    }

    private mutating func readIndexes() throws(SyntaxError) -> Set<ChildOrder> {
        var indexes: Set<ChildOrder> = []
        if token.kind == .openArray {
            try readElements { (loader) throws(SyntaxError) in try loader.readIndex(into: &indexes) }
        } else {
            try readIndex(into: &indexes)
        }
        return indexes
    }

    /// An invalid path of an index is accepted and ignored: no query can use it. A name with a plus sign is
    /// that of a child, as everywhere, and that of several fields, where it is valid as such (§10).
    private mutating func readIndex(into indexes: inout Set<ChildOrder>) throws(SyntaxError) {
        guard case .string(let name) = token.kind else {
            return try reject("Invalid indexOn expression. Must be either a string or an array of strings")
        }
        if name == ".value" {
            indexes.insert(.value)
        } else {
            if let path = try? Path(wire: name), !path.isRoot { indexes.insert(.child(path)) }
            if let fields = try? ChildOrder(compound: name) { indexes.insert(fields) }
        }
        try advance()
    }

    // MARK: JSON

    private mutating func advance() throws(SyntaxError) {
        token = try lexer.next()
    }

    /// Reads an object, and calls `member` after each name and its colon. `member` must consume the value.
    /// - Returns: The offset of the closing brace.
    private mutating func readMembers(
        _ member: (inout RulesLoader, Text, Int) throws(SyntaxError) -> Void
    ) throws(SyntaxError) -> Int {
        try open()
        guard token.kind != .comma else { throw unexpected() }
        var names: Set<Text> = []
        // One comma before the brace is allowed.
        while token.kind != .closeObject {
            guard case .string(let name) = token.kind else {
                throw token.kind == .unknown ? parseError() : expected("'\"'")
            }
            let offset = token.range.lowerBound
            try advance()
            guard token.kind == .colon else { throw expected("':'") }
            try advance()
            if names.insert(name).inserted {
                try member(&self, name, offset)
            } else {
                // JSON parsers disagree on which of two equal names counts, so rules must not contain them.
                problems.add("Duplicate key \(quoted(name)).", at: offset)
                try skipValue()
            }
            guard token.kind == .comma else { break }
            try advance()
        }
        guard token.kind == .closeObject else { throw expected("',' or '}'") }
        let end = token.range.lowerBound
        try close()
        return end
    }

    /// Reads an array, and calls `element` before each element, which it must consume.
    private mutating func readElements(
        _ element: (inout RulesLoader) throws(SyntaxError) -> Void
    ) throws(SyntaxError) {
        try open()
        while token.kind != .closeArray {
            try element(&self)
            guard token.kind == .comma else { break }
            try advance()
            guard token.kind != .comma else { throw expected("'\"'") }
        }
        guard token.kind == .closeArray else { throw expected("',' or ']'") }
        try close()
    }

    private mutating func open() throws(SyntaxError) {
        // Inside the document and `rules`, an object is a node, one key deeper than the object around it.
        let limit = RulesLimits.pathDepth + (token.kind == .openObject ? 2 : 3)
        guard depth < limit else {
            let text = "Rules are nested too deeply: at most \(RulesLimits.pathDepth) levels."
            throw SyntaxError(text, at: token.range.lowerBound)
        }
        depth += 1
        try advance()
    }

    private mutating func close() throws(SyntaxError) {
        depth -= 1
        try advance()
    }

    private mutating func skipValue() throws(SyntaxError) {
        switch token.kind {
        case .string, .true, .false, .otherLeaf: try advance()
        case .openObject: _ = try readMembers { (loader, _, _) throws(SyntaxError) in try loader.skipValue() }
        case .openArray: try readElements { (loader) throws(SyntaxError) in try loader.skipValue() }
        case .closeObject, .closeArray, .colon, .comma, .unknown, .end: throw unexpected()
        }
    }

    // MARK: Problems

    /// Reports that the current value is not allowed here, and skips it. If it is no value at all, the
    /// loading ends.
    private mutating func reject(_ text: String) throws(SyntaxError) {
        switch token.kind {
        case .string, .true, .false, .otherLeaf, .openObject, .openArray:
            problems.add(text, at: token.range.lowerBound)
            try skipValue()
        case .unknown: throw SyntaxError(text, at: token.range.lowerBound)
        case .closeObject, .closeArray, .colon, .comma, .end: throw unexpected()
        }
    }

    /// Reports that the current value is no object, where a node belongs. If it is no JSON, the loading ends.
    private mutating func rejectNode() throws(SyntaxError) {
        if token.kind == .unknown { throw parseError() }
        try reject("Expected '{'.")
    }

    /// The text is no JSON here, or no JSON object at all.
    private func parseError() -> SyntaxError { SyntaxError("Parse error.", at: token.range.lowerBound) }

    private func expected(_ what: String) -> SyntaxError {
        token.kind == .end ? unexpected() : SyntaxError("Expected \(what).", at: token.range.lowerBound)
    }

    private func unexpected() -> SyntaxError {
        let start = token.range.lowerBound
        guard token.kind != .end else { return parseError() }
        let text = Text(String(decoding: lexer.bytes[token.range], as: UTF8.self))
        return SyntaxError("Unexpected \(quoted(text)).", at: start)
    }
}
