import PandoBytes
import PandoTree

/// The kind of a rule.
package enum RuleKind: String, Hashable, Sendable {
    case read = ".read"
    case write = ".write"
    case validate = ".validate"
}

/// Checks an expression and makes a program of it (rules §5, §8).
///
/// One visit does both: each expression gets a type and an instruction. An invalid one is reported and gets the type
/// `unknown`, which every operator accepts, so that the rest is checked too and nothing is reported twice. A program
/// with problems is dropped.
struct ExpressionCompiler {
    /// The result of compiling an expression.
    struct Operand {
        var type: StaticType
        /// Of everything but a snapshot or what has no value.
        var instruction: Int32 = -1
        /// The value of a constant.
        var constant: RuleValue?
        /// Of a snapshot.
        var place: Place?
    }

    /// The known location of a snapshot: an origin, and keys below it. So `data.child('a').parent()` is `data`, without
    /// an instruction.
    struct Place {
        enum Origin {
            /// The ancestor of the rule's node at this depth, in the tree before or after.
            case tree(isAfter: Bool, depth: Int)
            case instruction(Int32)
        }

        var origin: Origin
        var keys: [Key] = []
    }

    let kind: RuleKind
    /// The `$` names that are bound here, with the depths of their keys.
    let variables: [(name: Text, depth: Int)]
    /// The number of keys above the rule's node.
    let depth: Int
    var parts = RuleProgram.Parts()
    var problems: [(text: String, offset: Int)] = []
    private var keyNumbers: [Key: Int32] = [:]

    private init(kind: RuleKind, variables: [(name: Text, depth: Int)], depth: Int) {
        self.kind = kind
        self.variables = variables
        self.depth = depth
    }

    enum Outcome {
        case constant(Bool)
        case program(RuleProgram)
    }

    /// - Returns: nil when there are problems, which are added to `problems` with offsets in the text.
    static func compile(
        _ text: Text, kind: RuleKind, variables: [(name: Text, depth: Int)], depth: Int,
        budget: inout ExpressionBudget, problems: inout [(text: String, offset: Int)]
    ) -> Outcome? {
        // Too many terms in the document were reported before.
        guard budget.nodeCount >= 0 else { return nil }
        do {
            let names = variables.map(\.name)
            let (expression, found) = try ExpressionParser.parse(text, variables: names, budget: &budget)
            var compiler = ExpressionCompiler(kind: kind, variables: variables, depth: depth)
            compiler.problems = found
            let result = compiler.compile(expression)
            if !result.type.isBoolean {
                compiler.note("Expression must evaluate to a boolean.", at: expression)
            }
            problems += compiler.problems
            guard compiler.problems.isEmpty else { return nil }
            if case .boolean(let value) = result.constant { return .constant(value) }
            return .program(RuleProgram(compiler.parts, root: result.instruction))
        } catch {
            problems.append((error.text, error.offset))
            return nil
        }
    }

    // MARK: Expressions

    mutating func compile(_ expression: Expression) -> Operand {
        switch expression.form {
        case .constant(let value): return constant(value, expression.range)
        case .variable(let name): return variable(name, expression)
        case .array(let elements):
            note("Unexpected array literal.", at: expression)
            return skip(elements)
        case .pattern: return Operand(type: .pattern)
        case .not(let operand): return compileNot(operand, expression.range)
        case .negative(let operand): return compileNegative(operand, expression.range)
        case .binary(let code, let left, let right): return compileBinary(code, left, right, expression.range)
        case .logic(let code, let operands): return compileLogic(code, operands, expression.range)
        case .choice(let condition, let first, let second):
            return compileChoice(condition, first, second, expression.range)
        case .member(let target, let name, let offset):
            return member(name, of: compile(target), at: offset, expression.range)
        case .index(let target, let index): return compileIndex(target, index, expression)
        case .call(let callee, let arguments): return compileCall(callee, arguments, expression)
        }
    }

    /// Checks an expression that is not used for further problems.
    mutating func skip(_ expressions: [Expression]) -> Operand {
        for expression in expressions { _ = compile(expression) }
        return Operand(type: .unknown)
    }

    private mutating func variable(_ name: Text, _ expression: Expression) -> Operand {
        switch name {
        case "auth": return emit(.auth, type: .auth, expression.range)
        case "now": return emit(.now, type: .number, expression.range)
        case "query": return Operand(type: .query)
        case "root": return snapshot(Place(origin: .tree(isAfter: false, depth: 0)))
        case "data": return snapshot(Place(origin: .tree(isAfter: false, depth: depth)))
        case "newData":
            if kind == .read { note("newData is invalid in .read expressions.", at: expression) }
            return snapshot(Place(origin: .tree(isAfter: true, depth: depth)))
        default:
            guard let variable = variables.first(where: { $0.name == name }) else {
                note("Unknown variable \(quoted(name)).", at: expression)
                return Operand(type: .unknown)
            }
            return emit(.key, Int32(variable.depth), type: .string, expression.range)
        }
    }

    // MARK: Instructions

    mutating func note(_ text: String, at expression: Expression) {
        problems.append((text, expression.range.lowerBound))
    }

    mutating func emit(
        _ code: RuleProgram.Code, _ a: Int32 = 0, _ b: Int32 = 0, _ c: Int32 = 0, type: StaticType,
        _ range: Range<Int>
    ) -> Operand {
        parts.instructions.append(RuleProgram.Instruction(code: code, a: a, b: b, c: c))
        parts.ranges.append(range)
        return Operand(type: type, instruction: Int32(parts.instructions.count - 1))
    }

    mutating func constant(_ value: RuleValue, _ range: Range<Int>) -> Operand {
        var operand: Operand
        switch value {
        case .boolean(let value): operand = emit(.boolean, value ? 1 : 0, type: .boolean, range)
        case .number(let value):
            parts.numbers.append(value)
            operand = emit(.number, Int32(parts.numbers.count - 1), type: .number, range)
        case .string(let text):
            parts.texts.append(text)
            operand = emit(.string, Int32(parts.texts.count - 1), type: .string, range)
        case .null, .object: operand = emit(.null, type: .null, range)
        }
        operand.constant = value
        return operand
    }

    func snapshot(_ place: Place) -> Operand { Operand(type: .snapshot, place: place) }

    /// The instruction of a snapshot.
    mutating func locate(_ operand: Operand, _ range: Range<Int>) -> Int32 {
        guard let place = operand.place else { return operand.instruction }
        let origin: Int32
        switch place.origin {
        case .instruction(let instruction): origin = instruction
        case .tree(let isAfter, let depth):
            origin = emit(.base, isAfter ? 1 : 0, Int32(depth), type: .snapshot, range).instruction
        }
        guard !place.keys.isEmpty else { return origin }
        let first = Int32(parts.keys.count)
        parts.keys += place.keys
        return emit(.child, origin, first, Int32(place.keys.count), type: .snapshot, range).instruction
    }

    /// The instruction of an operand's value. If the operand has no value, its evaluation is an error.
    mutating func instruction(of operand: Operand, _ range: Range<Int>) -> Int32 {
        if operand.place != nil { return locate(operand, range) }
        return operand.instruction >= 0 ? operand.instruction : emit(.null, type: .unknown, range).instruction
    }

    /// An operand of logic, which observers count separately.
    mutating func noteOperand(_ operand: Operand) {
        guard operand.constant == nil, operand.instruction >= 0, parts.operands.last != operand.instruction
        else { return }
        parts.operands.append(operand.instruction)
    }

    mutating func appendList(_ instructions: [Int32]) -> Int32 {
        parts.lists += instructions
        return Int32(parts.lists.count - instructions.count)
    }
}
