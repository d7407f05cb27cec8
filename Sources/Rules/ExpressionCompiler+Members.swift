import PandoBytes
import PandoTree

// Properties and calls (rules §5, §6), and the messages for invalid ones (§8).

extension ExpressionCompiler {
    // MARK: Properties

    /// `target.name` without a call.
    mutating func member(
        _ name: Text, of target: Operand, at offset: Int, _ range: Range<Int>
    ) -> Operand {
        switch target.type {
        case .unknown: return target
        case .string, .value, .auth:
            if name == "length" { return builder.emit(.length, target.instruction, type: .number, range) }
            if RuleMethod(name.string, of: target.type) != nil { return Operand(type: .method) }
            if target.type == .auth { return builder.claim(name, of: target, range) }
        case .snapshot:
            if RuleMethod(name.string, of: .snapshot) != nil { return Operand(type: .method) }
        case .query:
            if let property = QueryProperty(rawValue: name.string) {
                return builder.emit(
                    .query, property.number, type: property.isFlag ? .boolean : .queryValue, range)
            }
        case .boolean, .number, .null, .pattern, .array, .method, .queryValue, .mixed:
            problems.append(("Invalid property access: target is not an object.", offset))
            return Operand(type: .unknown)
        }
        problems.append(("No such method/property \(quoted(name)).", offset))
        return Operand(type: .unknown)
    }

    mutating func compileIndex(_ targetExpression: Expression, _ index: Expression, _ whole: Expression)
        -> Operand
    {
        let target = compile(targetExpression)
        if case .constant(.string(let name)) = index.form {
            return member(name, of: target, at: index.range.lowerBound, whole.range)
        }
        let operand = compile(index)
        switch target.type {
        case .unknown: return target
        case .auth:
            // A number names the element of an array.
            guard operand.type.isText || operand.type == .number else { break }
            return builder.emit(
                .claimMember, target.instruction, builder.instruction(of: operand, index.range), type: .auth,
                whole.range)
        case .boolean, .number, .null, .pattern, .array, .method, .queryValue, .mixed:
            note("Invalid property access: target is not an object.", at: index)
            return Operand(type: .unknown)
        case .string, .value, .snapshot, .query: break
        }
        note("Invalid property access.", at: index)
        return Operand(type: .unknown)
    }

    // MARK: Calls

    mutating func compileCall(_ callee: Expression, _ arguments: [Expression], _ whole: Expression) -> Operand
    {
        let named: (target: Expression, name: Text, offset: Int)?
        switch callee.form {
        case .member(let target, let name, let offset): named = (target, name, offset)
        case .index(let target, let index):
            if case .constant(.string(let name)) = index.form {
                named = (target, name, index.range.lowerBound)
            } else {
                named = nil
            }
        default: named = nil
        }
        let result: Operand
        if let named {
            let target = compile(named.target)
            if let method = RuleMethod(named.name.string, of: target.type) {
                return call(method, of: target, arguments, whole)
            }
            result = member(named.name, of: target, at: named.offset, callee.range)
        } else {
            result = compile(callee)
        }
        if result.type != .unknown {
            note("Type error: Function call on target that is not a function.", at: callee)
        }
        return skip(arguments)
    }

    private mutating func call(
        _ method: RuleMethod, of target: Operand, _ arguments: [Expression], _ whole: Expression
    ) -> Operand {
        let range = whole.range
        switch method {
        case .hasChildren: return callHasChildren(target, arguments, whole)
        case .matches: return callMatches(target, arguments, whole)
        case .child, .hasChild: return callChild(method, target, arguments, whole)
        case .val, .exists, .isString, .isNumber, .isBoolean, .parent, .getPriority, .toLowerCase,
            .toUpperCase:
            guard arguments.isEmpty else {
                note("\(method.rawValue)() expects no arguments.", at: whole)
                return skip(arguments)
            }
        case .contains, .beginsWith, .endsWith:
            guard arguments.count == 1 else {
                return refuse("\(method.rawValue)() expects 1 argument.", arguments, whole)
            }
        case .replace:
            guard arguments.count == 2 else {
                return refuse("replace() expects two arguments.", arguments, whole)
            }
        }
        switch method {
        case .val: return builder.emit(.value, builder.locate(target, range), type: .value, range)
        case .getPriority: return builder.emit(.priority, builder.locate(target, range), type: .value, range)
        case .exists: return builder.emit(.exists, builder.locate(target, range), type: .boolean, range)
        case .isString: return builder.emit(.isString, builder.locate(target, range), type: .boolean, range)
        case .isNumber: return builder.emit(.isNumber, builder.locate(target, range), type: .boolean, range)
        case .isBoolean: return builder.emit(.isBoolean, builder.locate(target, range), type: .boolean, range)
        case .parent: return builder.parent(of: target, range)
        case .toLowerCase: return builder.emit(.toLowerCase, target.instruction, type: .string, range)
        case .toUpperCase: return builder.emit(.toUpperCase, target.instruction, type: .string, range)
        case .contains: return search(.contains, method, target, arguments[0], range)
        case .beginsWith: return search(.beginsWith, method, target, arguments[0], range)
        case .endsWith: return search(.endsWith, method, target, arguments[0], range)
        default:
            let operands = arguments.map { compile($0) }
            for (index, operand) in operands.enumerated() where !operand.type.isText {
                note("Argument \(index + 1) of replace() must be a string.", at: arguments[index])
            }
            return builder.emit(
                .replace, target.instruction, builder.instruction(of: operands[0], range),
                builder.instruction(of: operands[1], range), type: .string, range)
        }
    }

    private mutating func refuse(_ text: String, _ arguments: [Expression], _ whole: Expression) -> Operand {
        note(text, at: whole)
        return skip(arguments)
    }

    private mutating func search(
        _ code: RuleProgram.Code, _ method: RuleMethod, _ target: Operand, _ argument: Expression,
        _ range: Range<Int>
    ) -> Operand {
        let operand = compile(argument)
        if !operand.type.isText { note("\(method.rawValue)() expects a string argument.", at: argument) }
        return builder.emit(
            code, target.instruction, builder.instruction(of: operand, argument.range), type: .boolean, range)
    }

    private mutating func callMatches(_ target: Operand, _ arguments: [Expression], _ whole: Expression)
        -> Operand
    {
        guard arguments.count == 1 else {
            return refuse("matches() expects 1 regular expression literal argument.", arguments, whole)
        }
        guard case .pattern(let pattern) = arguments[0].form else {
            note("matches() expects a regular expression literal argument.", at: arguments[0])
            return skip(arguments)
        }
        // An invalid pattern was reported before.
        guard let pattern else { return Operand(type: .unknown) }
        return builder.matches(pattern, target, whole.range)
    }

    // MARK: Children

    private mutating func callChild(
        _ method: RuleMethod, _ target: Operand, _ arguments: [Expression], _ whole: Expression
    ) -> Operand {
        guard arguments.count == 1 else {
            return refuse("\(method.rawValue)() expects 1 argument.", arguments, whole)
        }
        let argument = compile(arguments[0])
        if !argument.type.isText { note("\(method.rawValue)() expects a string argument.", at: arguments[0]) }
        let child = builder.child(
            argument, isLiteral: arguments[0].isLiteral, of: target, arguments[0].range, whole.range)
        return method == .child
            ? child : builder.emit(.exists, builder.locate(child, whole.range), type: .boolean, whole.range)
    }

    private mutating func callHasChildren(
        _ target: Operand, _ arguments: [Expression], _ whole: Expression
    ) -> Operand {
        guard let list = arguments.first else {
            return builder.emit(
                .hasChildren, builder.locate(target, whole.range), type: .boolean, whole.range)
        }
        guard arguments.count == 1 else {
            note(
                "hasChildren() expects only a single argument (containing an array of child names).",
                at: whole)
            return Operand(type: .unknown)
        }
        guard case .array(let names) = list.form else {
            note("hasChildren() expects an array of child names.", at: list)
            return skip(arguments)
        }
        // All children are below the same snapshot. Only the last step differs.
        let snapshot = Operand(type: .snapshot, instruction: builder.locate(target, whole.range))
        var children: [Int32] = []
        for name in names {
            let operand = compile(name)
            if !operand.type.isText { note("hasChildren() expects an array of strings.", at: name) }
            let child = builder.child(
                operand, isLiteral: name.isLiteral, of: snapshot, name.range, name.range)
            children.append(builder.locate(child, name.range))
        }
        return builder.emit(
            .hasAllChildren, snapshot.instruction, builder.appendList(children), Int32(children.count),
            type: .boolean,
            whole.range)
    }
}

extension Expression {
    /// A literal, not a computed text.
    var isLiteral: Bool {
        if case .constant = form { true } else { false }
    }
}
