import PandoBytes

/// A parsed expression (rules §4), which is checked, compiled and then dropped.
///
/// Always true: no deeper than ``RulesLimits/expressionDepth``, so it may be visited by recursion.
struct Expression {
    indirect enum Form {
        case constant(RuleValue)
        /// `auth`, `now`… or `$x` with its `$`.
        case variable(Text)
        case array([Expression])
        /// Nil for an invalid pattern, which was reported.
        case pattern(Pattern?)
        case not(Expression)
        case negative(Expression)
        case binary(RuleProgram.Code, Expression, Expression)
        /// `&&` or `||` with all operands of a chain, since a chain may be longer than the recursion is deep.
        case logic(RuleProgram.Code, [Expression])
        case choice(Expression, then: Expression, otherwise: Expression)
        case member(Expression, name: Text, offset: Int)
        case index(Expression, Expression)
        case call(Expression, [Expression])
    }

    let form: Form
    /// The range in the rule's text, without parentheses around it.
    let range: Range<Int>
    /// The nesting of expressions.
    let height: Int
}

/// Parses an expression.
struct ExpressionParser {
    private var lexer: ExpressionLexer
    /// The next token.
    private var token: ExpressionToken
    private var depth = 0
    private var end = 0
    /// Invalid patterns. The rest is parsed nevertheless.
    private(set) var problems: [(text: String, offset: Int)] = []
    private var budget: ExpressionBudget

    /// - Parameter budget: The budget of the document, which is reduced by this expression.
    /// - Returns: The expression and the problems in its patterns.
    static func parse(
        _ text: Text, variables: [Text], budget: inout ExpressionBudget
    ) throws(SyntaxError) -> (Expression, [(text: String, offset: Int)]) {
        var parser = try ExpressionParser(text, variables, budget)
        defer { budget = parser.budget }
        let expression = try parser.parseExpression()
        guard parser.token.kind == .end else { throw parser.stray() }
        return (expression, parser.problems)
    }

    private init(_ text: Text, _ variables: [Text], _ budget: ExpressionBudget) throws(SyntaxError) {
        lexer = ExpressionLexer(text, variables: variables)
        token = try lexer.next()
        self.budget = budget
    }

    private mutating func advance() throws(SyntaxError) {
        end = token.range.upperBound
        token = try lexer.next()
    }

    private mutating func consume(_ symbol: ExpressionToken.Symbol) throws(SyntaxError) -> Bool {
        guard token.kind == .symbol(symbol) else { return false }
        try advance()
        return true
    }

    private mutating func expect(_ symbol: ExpressionToken.Symbol, _ text: String) throws(SyntaxError) {
        guard try consume(symbol) else {
            throw token.kind == .end ? stray() : SyntaxError(text, at: token.range.lowerBound)
        }
    }

    private mutating func make(
        _ form: Expression.Form, from start: Int, over parts: [Expression] = []
    ) throws(SyntaxError) -> Expression {
        let height = 1 + (parts.lazy.map(\.height).max() ?? 0)
        guard height <= RulesLimits.expressionDepth else { throw tooDeep() }
        budget.nodeCount -= 1
        guard budget.nodeCount >= 0 else {
            let text =
                "Rules are too large: more than \(RulesLimits.expressionNodeCount) terms in all expressions."
            throw SyntaxError(text, at: start)
        }
        return Expression(form: form, range: start..<end, height: height)
    }

    // MARK: Operators

    private mutating func parseExpression() throws(SyntaxError) -> Expression {
        depth += 1
        guard depth <= RulesLimits.expressionDepth else { throw tooDeep() }
        defer { depth -= 1 }
        let start = token.range.lowerBound
        let condition = try parseBinary(above: 0)
        guard try consume(.question) else { return condition }
        let first = try parseExpression()
        try expect(.colon, "missing : in conditional expression")
        let second = try parseExpression()
        return try make(
            .choice(condition, then: first, otherwise: second), from: start,
            over: [condition, first, second])
    }

    /// Binary operators that bind more tightly than `precedence`, from left to right.
    private mutating func parseBinary(above precedence: Int) throws(SyntaxError) -> Expression {
        let start = token.range.lowerBound
        var left = try parseUnary()
        while let next = binaryOperator, next.precedence > precedence {
            let symbol = token.kind
            try advance()
            let right = try parseBinary(above: next.precedence)
            switch next.code {
            case .and, .or:
                var operands = [left, right]
                while token.kind == symbol {
                    try advance()
                    operands.append(try parseBinary(above: next.precedence))
                }
                left = try make(.logic(next.code, operands), from: start, over: operands)
            default: left = try make(.binary(next.code, left, right), from: start, over: [left, right])
            }
        }
        return left
    }

    private var binaryOperator: (code: RuleProgram.Code, precedence: Int)? {
        guard case .symbol(let symbol) = token.kind else { return nil }
        return switch symbol {
        case .or: (.or, 1)
        case .and: (.and, 2)
        case .equal, .identical: (.equal, 3)
        case .notEqual, .notIdentical: (.notEqual, 3)
        case .less: (.less, 4)
        case .lessOrEqual: (.lessOrEqual, 4)
        case .greater: (.greater, 4)
        case .greaterOrEqual: (.greaterOrEqual, 4)
        case .plus: (.add, 5)
        case .minus: (.subtract, 5)
        case .times: (.multiply, 6)
        case .slash: (.divide, 6)
        case .percent: (.remainder, 6)
        default: nil
        }
    }

    private mutating func parseUnary() throws(SyntaxError) -> Expression {
        let start = token.range.lowerBound
        let isNot = token.kind == .symbol(.not)
        guard isNot || token.kind == .symbol(.minus) else { return try parsePostfix() }
        depth += 1
        guard depth <= RulesLimits.expressionDepth else { throw tooDeep() }
        defer { depth -= 1 }
        try advance()
        let operand = try parseUnary()
        return try make(isNot ? .not(operand) : .negative(operand), from: start, over: [operand])
    }

    // MARK: Operands

    private mutating func parsePostfix() throws(SyntaxError) -> Expression {
        let start = token.range.lowerBound
        var operand = try parsePrimary()
        while true {
            if try consume(.dot) {
                guard case .identifier(let name) = token.kind else {
                    throw token.kind == .end
                        ? stray() : SyntaxError("missing name after . operator", at: token.range.lowerBound)
                }
                let offset = token.range.lowerBound
                try advance()
                operand = try make(
                    .member(operand, name: Text(name), offset: offset), from: start, over: [operand])
            } else if try consume(.openBracket) {
                let index = try parseExpression()
                try expect(.closeBracket, "missing ] in index expression")
                operand = try make(.index(operand, index), from: start, over: [operand, index])
            } else if try consume(.openParenthesis) {
                let arguments = try parseList(until: .closeParenthesis, "missing ) after argument list")
                operand = try make(.call(operand, arguments), from: start, over: [operand] + arguments)
            } else {
                return operand
            }
        }
    }

    private mutating func parseList(
        until close: ExpressionToken.Symbol, _ text: String
    ) throws(SyntaxError) -> [Expression] {
        if try consume(close) { return [] }
        var elements: [Expression] = []
        repeat { elements.append(try parseExpression()) } while try consume(.comma)
        try expect(close, text)
        return elements
    }

    private mutating func parsePrimary() throws(SyntaxError) -> Expression {
        let start = token.range.lowerBound
        switch token.kind {
        case .number(let value):
            try advance()
            return try make(.constant(.number(value)), from: start)
        case .string(let text):
            try advance()
            return try make(.constant(.string(text)), from: start)
        case .pathVariable(let name):
            try advance()
            return try make(.variable(name), from: start)
        case .identifier(let name): return try parseWord(name, from: start)
        case .symbol(.openParenthesis):
            try advance()
            let inner = try parseExpression()
            try expect(.closeParenthesis, "missing ) in parenthetical")
            return inner
        case .symbol(.openBracket):
            try advance()
            let elements = try parseList(until: .closeBracket, "missing ] after element list")
            return try make(.array(elements), from: start, over: elements)
        case .symbol(.slash): return try parsePattern(from: start)
        case .symbol, .end: throw stray()
        }
    }

    private mutating func parseWord(_ name: String, from start: Int) throws(SyntaxError) -> Expression {
        let form: Expression.Form
        switch name {
        case "true": form = .constant(.boolean(true))
        case "false": form = .constant(.boolean(false))
        case "null": form = .constant(.null)
        case _ where Self.operatorWords.contains(name) || Self.statementWords.contains(name): throw stray()
        default: form = .variable(Text(name))
        }
        try advance()
        return try make(form, from: start)
    }

    private mutating func parsePattern(from start: Int) throws(SyntaxError) -> Expression {
        let (text, flags) = try lexer.readPattern(from: start)
        end = lexer.offset
        token = try lexer.next()
        var pattern: Pattern?
        if !flags.isEmpty, flags != "i" {
            problems.append(("regular expressions do not support flags other than i", start))
        } else {
            do {
                pattern = try Pattern(text, ignoresCase: flags == "i", budget: &budget.patterns)
            } catch {
                // One character on for the slash.
                let before = text.unicodeScalars.prefix(error.position).reduce(1) { $0 + UTF8.width($1) }
                problems.append((error.text, start + before))
            }
        }
        return try make(.pattern(pattern), from: start)
    }

    // MARK: Errors

    /// Words that are operators in JavaScript.
    private static let operatorWords: Set<String> = ["typeof", "void", "delete", "in", "instanceof", "new"]
    /// Words that begin no expression, or one that rules do not support.
    private static let statementWords: Set<String> = [
        "var", "let", "const", "function", "return", "if", "else", "for", "while", "do", "switch", "case",
        "class",
        "throw", "try", "this",
    ]

    /// The error for an unexpected token.
    private func stray() -> SyntaxError {
        let start = token.range.lowerBound
        switch token.kind {
        case .end: return SyntaxError("Unexpected end of expression", at: start)
        case .identifier(let name) where Self.operatorWords.contains(name):
            return SyntaxError("Rule expressions may not contain operator \(name)", at: start)
        case .identifier(let name) where Self.statementWords.contains(name):
            return SyntaxError("syntax error", at: start)
        case .identifier, .number, .string, .pathVariable:
            return SyntaxError("missing ; before statement", at: start)
        case .symbol: return SyntaxError("syntax error", at: start)
        }
    }

    private func tooDeep() -> SyntaxError {
        let text = "Expression is nested too deeply: at most \(RulesLimits.expressionDepth) levels."
        return SyntaxError(text, at: token.range.lowerBound)
    }
}

/// The terms and patterns that the expressions of one document may still have.
struct ExpressionBudget {
    var nodeCount = RulesLimits.expressionNodeCount
    var patterns = PatternBudget()
}
