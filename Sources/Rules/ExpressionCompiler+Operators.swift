import PandoBytes

// Operators: the types of their operands (rules §5), the messages for other types (§8), and constant folding.

extension ExpressionCompiler {
    mutating func compileNot(_ expression: Expression, _ range: Range<Int>) -> Operand {
        let operand = compile(expression)
        if !operand.type.isBoolean { note("! only operates on booleans.", at: expression) }
        if case .boolean(let value) = operand.constant { return builder.constant(.boolean(!value), range) }
        builder.noteOperand(operand)
        return builder.emit(.not, builder.instruction(of: operand, range), type: .boolean, range)
    }

    mutating func compileNegative(_ expression: Expression, _ range: Range<Int>) -> Operand {
        let operand = compile(expression)
        if !operand.type.isNumeric { note("- only operates on numbers.", at: expression) }
        if let value = operand.constant, let result = try? RuleValue.negated(value) {
            return builder.constant(result, range)
        }
        return builder.emit(.negate, builder.instruction(of: operand, range), type: .number, range)
    }

    mutating func compileBinary(
        _ code: RuleProgram.Code, _ leftExpression: Expression, _ rightExpression: Expression,
        _ range: Range<Int>
    ) -> Operand {
        let left = compile(leftExpression)
        let right = compile(rightExpression)
        let type: StaticType
        switch code {
        case .equal, .notEqual:
            type = .boolean
            let endings =
                code == .equal
                ? ("boolean, string, null.", "boolean, string, or null.")
                : ("boolean, string, or null.", "boolean, string, or null.")
            let name = code == .equal ? "==" : "!="
            let text = { (side: String, ending: String) in
                "Invalid \(name) expression: \(side) operand is not a number, \(ending)"
            }
            if !left.type.isComparable { note(text("left", endings.0), at: leftExpression) }
            if !right.type.isComparable { note(text("right", endings.1), at: rightExpression) }
        case .less, .lessOrEqual, .greater, .greaterOrEqual:
            type = .boolean
            let text = { (side: String) in
                "Invalid \(code.symbol) expression: \(side) operand must be a number or string."
            }
            if !left.type.isOrdered { note(text("left"), at: leftExpression) }
            if !right.type.isOrdered { note(text("right"), at: rightExpression) }
        case .add:
            type = Self.sumType(left.type, right.type)
            let text = { (side: String) in "Invalid + expression: \(side) operand is not a number or string."
            }
            if !left.type.isOrdered { note(text("left"), at: leftExpression) }
            if !right.type.isOrdered { note(text("right"), at: rightExpression) }
        default:
            type = .number
            let text = { (side: String) in
                "Invalid \(code.symbol) expression: \(side) operand is not a number."
            }
            if !left.type.isNumeric { note(text("left"), at: leftExpression) }
            if !right.type.isNumeric { note(text("right"), at: rightExpression) }
        }
        if let a = left.constant, let b = right.constant, let result = Self.fold(code, a, b) {
            return builder.constant(result, range)
        }
        return builder.emit(
            code, builder.instruction(of: left, leftExpression.range),
            builder.instruction(of: right, rightExpression.range),
            type: type, range)
    }

    private static func sumType(_ left: StaticType, _ right: StaticType) -> StaticType {
        if left == .unknown || right == .unknown { return .unknown }
        if left == .string || right == .string { return .string }
        return left == .number && right == .number ? .number : .value
    }

    /// Nil for an error, which the evaluation reports.
    private static func fold(_ code: RuleProgram.Code, _ left: RuleValue, _ right: RuleValue) -> RuleValue? {
        switch code {
        case .equal: .boolean(RuleValue.equals(left, right))
        case .notEqual: .boolean(!RuleValue.equals(left, right))
        case .less, .lessOrEqual, .greater, .greaterOrEqual:
            (try? RuleValue.ordered(left, right, code)).map { .boolean($0) }
        case .add: try? RuleValue.sum(left, right)
        default: try? RuleValue.arithmetic(left, right, code)
        }
    }

    mutating func compileLogic(
        _ code: RuleProgram.Code, _ expressions: [Expression], _ range: Range<Int>
    ) -> Operand {
        /// The value of an operand after which nothing is evaluated.
        let decisive = code == .or
        var kept: [Operand] = []
        var isDecided = false
        for (index, expression) in expressions.enumerated() {
            let noted = builder.operandCount
            var operand = compile(expression)
            if !operand.type.isBoolean {
                operand.type = .unknown
                note(
                    "\(index == 0 ? "Left" : "Right") operand of \(code.symbol) must be boolean.",
                    at: expression)
            }
            guard !isDecided else {
                // It is never evaluated, nor are its operands.
                builder.forgetOperands(from: noted, to: builder.operandCount)
                continue
            }
            if case .boolean(let value) = operand.constant {
                // The other value does not change the result.
                guard value == decisive else { continue }
                isDecided = true
            }
            kept.append(operand)
        }
        guard let first = kept.first else { return builder.constant(.boolean(!decisive), range) }
        if first.constant != nil { return builder.constant(.boolean(decisive), range) }
        if kept.count == 1, isAlwaysBoolean(first) { return first }
        for operand in kept { builder.noteOperand(operand) }
        let list = kept.map { builder.instruction(of: $0, range) }
        return builder.emit(code, builder.appendList(list), Int32(list.count), type: .boolean, range)
    }

    /// False for a term whose type is boolean and whose value in a write is null: a property of `query`
    /// (§3.2), or a `?` with one. As an operand of logic it is an error, so it must remain an operand.
    private func isAlwaysBoolean(_ operand: Operand) -> Bool {
        switch builder.code(of: operand) {
        case nil, .query, .choice: false
        default: true
        }
    }

    mutating func compileChoice(
        _ conditionExpression: Expression, _ firstExpression: Expression, _ secondExpression: Expression,
        _ range: Range<Int>
    ) -> Operand {
        let condition = compile(conditionExpression)
        if !condition.type.isBoolean { note("condition of ? must be boolean.", at: conditionExpression) }
        let noted = builder.operandCount
        let first = compile(firstExpression)
        let notedInFirst = builder.operandCount
        let second = compile(secondExpression)
        for (operand, expression) in [(first, firstExpression), (second, secondExpression)] {
            switch operand.type {
            case .pattern, .query, .method:
                note(
                    "Invalid ? expression: operand is not a number, boolean, string, or null.", at: expression
                )
            default: break
            }
        }
        let isUnknown = first.type == .unknown || second.type == .unknown
        let type: StaticType = isUnknown ? .unknown : first.type == second.type ? first.type : .mixed
        if case .boolean(let value) = condition.constant, type != .mixed {
            // The other branch is never evaluated, nor are its operands.
            if value {
                builder.forgetOperands(from: notedInFirst, to: builder.operandCount)
            } else {
                builder.forgetOperands(from: noted, to: notedInFirst)
            }
            return value ? first : second
        }
        builder.noteOperand(condition)
        return builder.emit(
            .choice, builder.instruction(of: condition, conditionExpression.range),
            builder.instruction(of: first, firstExpression.range),
            builder.instruction(of: second, secondExpression.range),
            type: type, range)
    }
}

extension RuleProgram.Code {
    /// The spelling of the operator.
    var symbol: String {
        switch self {
        case .equal: "=="
        case .notEqual: "!="
        case .less: "<"
        case .lessOrEqual: "<="
        case .greater: ">"
        case .greaterOrEqual: ">="
        case .add: "+"
        case .subtract, .negate: "-"
        case .multiply: "*"
        case .divide: "/"
        case .remainder: "%"
        case .not: "!"
        case .and: "&&"
        case .or: "||"
        default: "?"
        }
    }
}
