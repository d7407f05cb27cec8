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
/// One visit does both: each expression gets a type and an instruction. An invalid one is reported and gets
/// the type `unknown`, which every operator accepts, so that the rest is checked too and nothing is reported
/// twice. A program with problems is dropped.
struct ExpressionCompiler {
    typealias Operand = RuleProgramBuilder.Operand
    typealias Place = RuleProgramBuilder.Place

    let kind: RuleKind
    /// The `$` names that are bound here, with the depths of their keys.
    let variables: [(name: Text, depth: Int)]
    /// The number of keys above the rule's node.
    let depth: Int
    var builder = RuleProgramBuilder()
    var problems: [(text: String, offset: Int)] = []

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
            return .program(RuleProgram(compiler.builder.parts, root: result.instruction))
        } catch {
            problems.append((error.text, error.offset))
            return nil
        }
    }

    // MARK: Expressions

    mutating func compile(_ expression: Expression) -> Operand {
        switch expression.form {
        case .constant(let value): return builder.constant(value, expression.range)
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
        case "auth": return builder.emit(.auth, type: .auth, expression.range)
        case "now": return builder.emit(.now, type: .number, expression.range)
        case "query": return Operand(type: .query)
        case "root": return builder.snapshot(Place(origin: .tree(isAfter: false, depth: 0)))
        case "data": return builder.snapshot(Place(origin: .tree(isAfter: false, depth: depth)))
        case "newData":
            if kind == .read { note("newData is invalid in .read expressions.", at: expression) }
            return builder.snapshot(Place(origin: .tree(isAfter: true, depth: depth)))
        default:
            guard let variable = variables.first(where: { $0.name == name }) else {
                note("Unknown variable \(quoted(name)).", at: expression)
                return Operand(type: .unknown)
            }
            return builder.emit(.key, Int32(variable.depth), type: .string, expression.range)
        }
    }

    // MARK: Problems

    mutating func note(_ text: String, at expression: Expression) {
        problems.append((text, expression.range.lowerBound))
    }
}
