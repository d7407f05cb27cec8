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
            if name == "length" { return emit(.length, target.instruction, type: .number, range) }
            if RuleMethod(name.string, of: target.type) != nil { return Operand(type: .method) }
            if target.type == .auth { return claim(name, of: target, range) }
        case .snapshot:
            if RuleMethod(name.string, of: .snapshot) != nil { return Operand(type: .method) }
        case .query:
            if let property = QueryProperty(rawValue: name.string) {
                return emit(.query, property.number, type: property.isFlag ? .boolean : .queryValue, range)
            }
        case .boolean, .number, .null, .pattern, .array, .method, .queryValue, .mixed:
            problems.append(("Invalid property access: target is not an object.", offset))
            return Operand(type: .unknown)
        }
        problems.append(("No such method/property \(quoted(name)).", offset))
        return Operand(type: .unknown)
    }

    /// Nested properties of `auth` become one path.
    private mutating func claim(_ name: Text, of target: Operand, _ range: Range<Int>) -> Operand {
        let instruction = parts.instructions[Int(target.instruction)]
        let above: [Text]
        switch instruction.code {
        case .auth where name == "uid": return emit(.uid, type: .auth, range)
        case .auth: above = []
        case .uid: above = ["uid"]
        case .claim: above = parts.claimPaths[Int(instruction.a)]
        default:
            let member = constant(.string(name), range)
            return emit(.claimMember, target.instruction, member.instruction, type: .auth, range)
        }
        parts.claimPaths.append(above + [name])
        return emit(.claim, Int32(parts.claimPaths.count - 1), type: .auth, range)
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
            return emit(
                .claimMember, target.instruction, instruction(of: operand, index.range), type: .auth,
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
        case .val: return emit(.value, locate(target, range), type: .value, range)
        case .getPriority: return emit(.priority, locate(target, range), type: .value, range)
        case .exists: return emit(.exists, locate(target, range), type: .boolean, range)
        case .isString: return emit(.isString, locate(target, range), type: .boolean, range)
        case .isNumber: return emit(.isNumber, locate(target, range), type: .boolean, range)
        case .isBoolean: return emit(.isBoolean, locate(target, range), type: .boolean, range)
        case .parent: return parent(of: target, range)
        case .toLowerCase: return emit(.toLowerCase, target.instruction, type: .string, range)
        case .toUpperCase: return emit(.toUpperCase, target.instruction, type: .string, range)
        case .contains: return search(.contains, method, target, arguments[0], range)
        case .beginsWith: return search(.beginsWith, method, target, arguments[0], range)
        case .endsWith: return search(.endsWith, method, target, arguments[0], range)
        default:
            let operands = arguments.map { compile($0) }
            for (index, operand) in operands.enumerated() where !operand.type.isText {
                note("Argument \(index + 1) of replace() must be a string.", at: arguments[index])
            }
            return emit(
                .replace, target.instruction, instruction(of: operands[0], range),
                instruction(of: operands[1], range), type: .string, range)
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
        return emit(code, target.instruction, instruction(of: operand, argument.range), type: .boolean, range)
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
        parts.patterns.append(pattern)
        return emit(
            .matches, target.instruction, Int32(parts.patterns.count - 1), type: .boolean, whole.range)
    }

    // MARK: Locations

    private func place(of target: Operand) -> Place {
        target.place ?? Place(origin: .instruction(target.instruction))
    }

    private mutating func parent(of target: Operand, _ range: Range<Int>) -> Operand {
        var place = place(of: target)
        if place.keys.popLast() == nil {
            switch place.origin {
            case .tree(let isAfter, let depth) where depth > 0:
                place.origin = .tree(isAfter: isAfter, depth: depth - 1)
            case .tree: return emit(.aboveRoot, type: .snapshot, range)
            case .instruction(let instruction): return emit(.parent, instruction, type: .snapshot, range)
            }
        }
        return snapshot(place)
    }

    private mutating func callChild(
        _ method: RuleMethod, _ target: Operand, _ arguments: [Expression], _ whole: Expression
    ) -> Operand {
        guard arguments.count == 1 else {
            return refuse("\(method.rawValue)() expects 1 argument.", arguments, whole)
        }
        let argument = compile(arguments[0])
        if !argument.type.isText { note("\(method.rawValue)() expects a string argument.", at: arguments[0]) }
        let child = child(argument, arguments[0], of: target, whole.range)
        return method == .child
            ? child : emit(.exists, locate(child, whole.range), type: .boolean, whole.range)
    }

    private mutating func child(
        _ argument: Operand, _ expression: Expression, of target: Operand, _ range: Range<Int>
    ) -> Operand {
        if case .string(let path) = argument.constant {
            let keys = path.segments
            // A literal path without keys is the node itself. A computed one names no node, which the evaluation finds.
            if !keys.isEmpty || expression.isLiteral {
                var place = place(of: target)
                place.keys += keys
                return snapshot(place)
            }
        }
        if argument.instruction >= 0, parts.instructions[Int(argument.instruction)].code == .key {
            let depth = parts.instructions[Int(argument.instruction)].a
            return emit(
                .childByKey, locate(target, range), depth, argument.instruction, type: .snapshot, range)
        }
        return emit(
            .childByText, locate(target, range), instruction(of: argument, expression.range), type: .snapshot,
            range)
    }

    private mutating func callHasChildren(
        _ target: Operand, _ arguments: [Expression], _ whole: Expression
    ) -> Operand {
        guard let list = arguments.first else {
            return emit(.hasChildren, locate(target, whole.range), type: .boolean, whole.range)
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
        let snapshot = Operand(type: .snapshot, instruction: locate(target, whole.range))
        var children: [Int32] = []
        for name in names {
            let operand = compile(name)
            if !operand.type.isText { note("hasChildren() expects an array of strings.", at: name) }
            let child = child(operand, name, of: snapshot, name.range)
            children.append(locate(child, name.range))
        }
        return emit(
            .hasAllChildren, snapshot.instruction, appendList(children), Int32(children.count),
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

extension Text {
    /// The keys of a literal path: split on `/`, without empty segments. A segment that is no valid key names no node
    /// (§6: `.` and `..` are not resolved). For computed paths see ``PathSegments``.
    var segments: [Key] {
        string.utf8.split(separator: UInt8(ascii: "/")).map { Key(unchecked: Text(String(Substring($0)))) }
    }
}
