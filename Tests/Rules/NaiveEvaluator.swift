import PandoBytes
import PandoTree

@testable import PandoRules

/// A second evaluator, written as literally as the description of the language (rules §6, §7): it walks the
/// expression, reads every snapshot by its whole path, and folds no constants. The compiled rules must agree
/// with it.
struct NaiveEvaluator {
    enum Value {
        case null, object
        case boolean(Bool)
        case number(Double)
        case string(String)
        case claim(Claim)
        case snapshot(isAfter: Bool, [String])
    }

    struct Failure: Error {}

    var auth: Claim
    var now: Double
    var before: Node
    var after: Node
    /// The rule's node.
    var location: [String]
    /// The keys that `$` names stand for.
    var variables: [String: String]
    var isRead: Bool

    func holds(_ expression: Expression) -> Bool {
        if case .boolean(true)? = try? evaluate(expression) { true } else { false }
    }

    func evaluate(_ expression: Expression) throws -> Value {
        switch expression.form {
        case .constant(let value): return convert(value)
        case .variable(let name):
            switch name.string {
            case "auth": return value(of: auth)
            case "now": return .number(now)
            case "root": return .snapshot(isAfter: false, [])
            case "data": return .snapshot(isAfter: false, location)
            case "newData": return .snapshot(isAfter: true, location)
            default: return .string(variables[name.string] ?? "?")
            }
        case .array, .pattern: throw Failure()
        case .not(let operand): return .boolean(!(try boolean(operand)))
        case .negative(let operand): return .number(-(try number(operand)))
        case .logic(let code, let operands):
            for operand in operands where try boolean(operand) == (code == .or) {
                return .boolean(code == .or)
            }
            return .boolean(code == .and)
        case .choice(let condition, let first, let second):
            return try evaluate(boolean(condition) ? first : second)
        case .binary(let code, let left, let right): return try binary(code, evaluate(left), evaluate(right))
        case .member(let target, let name, _): return try member(name.string, of: target)
        case .index(let target, let index):
            switch try evaluate(index) {
            case .string(let name): return try member(name, of: target)
            case .number(let number): return try member(numberText(number), of: target)
            default: throw Failure()
            }
        case .call(let callee, let arguments):
            switch callee.form {
            case .member(let target, let name, _): return try call(name.string, on: target, arguments)
            case .index(let target, let index): return try call(string(index), on: target, arguments)
            default: throw Failure()
            }
        }
    }

    // MARK: Types

    private func convert(_ value: RuleValue) -> Value {
        switch value {
        case .null: .null
        case .boolean(let value): .boolean(value)
        case .number(let value): .number(value)
        case .string(let text): .string(text.string)
        case .object: .object
        }
    }

    private func value(of claim: Claim) -> Value {
        if case .object = claim { .claim(claim) } else { convert(claim.value) }
    }

    private func boolean(_ expression: Expression) throws -> Bool {
        guard case .boolean(let value) = try evaluate(expression) else { throw Failure() }
        return value
    }

    private func number(_ expression: Expression) throws -> Double {
        guard case .number(let value) = try evaluate(expression) else { throw Failure() }
        return value
    }

    private func string(_ expression: Expression) throws -> String {
        guard case .string(let value) = try evaluate(expression) else { throw Failure() }
        return value
    }

    // MARK: Operators

    private func binary(_ code: RuleProgram.Code, _ left: Value, _ right: Value) throws -> Value {
        if case .snapshot = left { throw Failure() }
        if case .snapshot = right { throw Failure() }
        switch (code, left, right) {
        case (.equal, _, _): return .boolean(try equal(left, right))
        case (.notEqual, _, _): return .boolean(!(try equal(left, right)))
        case (.less, .number(let a), .number(let b)): return .boolean(a < b)
        case (.lessOrEqual, .number(let a), .number(let b)): return .boolean(a <= b)
        case (.greater, .number(let a), .number(let b)): return .boolean(a > b)
        case (.greaterOrEqual, .number(let a), .number(let b)): return .boolean(a >= b)
        case (.less, .string(let a), .string(let b)): return .boolean(order(a, b) < 0)
        case (.lessOrEqual, .string(let a), .string(let b)): return .boolean(order(a, b) <= 0)
        case (.greater, .string(let a), .string(let b)): return .boolean(order(a, b) > 0)
        case (.greaterOrEqual, .string(let a), .string(let b)): return .boolean(order(a, b) >= 0)
        case (.add, .number(let a), .number(let b)): return .number(a + b)
        case (.add, .string(let a), .string(let b)): return .string(a + b)
        case (.add, .string(let a), .number(let b)): return .string(a + numberText(b))
        case (.add, .number(let a), .string(let b)): return .string(numberText(a) + b)
        case (.subtract, .number(let a), .number(let b)): return .number(a - b)
        case (.multiply, .number(let a), .number(let b)): return .number(a * b)
        case (.divide, .number(let a), .number(let b)): return .number(b == 0 ? .nan : a / b)
        case (.remainder, .number(let a), .number(let b)):
            return .number(b == 0 ? .nan : a.truncatingRemainder(dividingBy: b))
        default: throw Failure()
        }
    }

    private func order(_ a: String, _ b: String) -> Int {
        let (a, b) = (Array(a.utf16), Array(b.utf16))
        return a == b ? 0 : a.lexicographicallyPrecedes(b) ? -1 : 1
    }

    private func equal(_ left: Value, _ right: Value) throws -> Bool {
        switch (left, right) {
        case (.null, .null): return true
        case (.boolean(let a), .boolean(let b)): return a == b
        case (.number(let a), .number(let b)): return a == b
        case (.string(let a), .string(let b)): return Array(a.utf8) == Array(b.utf8)
        default: return false
        }
    }

    // MARK: Members

    private func member(_ name: String, of target: Expression) throws -> Value {
        if case .variable("query") = target.form {
            return isRead && name.hasPrefix("orderBy") && name != "orderByChild" ? .boolean(false) : .null
        }
        let value = try evaluate(target)
        if name == "length" {
            guard case .string(let text) = value else { throw Failure() }
            return .number(Double(text.utf16.count))
        }
        guard case .claim(.object(let object)) = value else { return .null }
        return self.value(of: object.members[Text(name)] ?? .null)
    }

    private func node(_ isAfter: Bool, _ path: [String]) -> Node {
        path.reduce(isAfter ? after : before) { $0[Key(unchecked: Text($1))] }
    }

    /// Whether it is `auth.uid`, which is one key and no path.
    private func isUID(_ expression: Expression) -> Bool {
        switch expression.form {
        case .member(let target, let name, _):
            if case .variable("auth") = target.form { name.string == "uid" } else { false }
        case .index(let target, let index):
            if case .variable("auth") = target.form, case .constant(.string("uid")) = index.form {
                true
            } else {
                false
            }
        default: false
        }
    }

    private func call(_ name: String, on target: Expression, _ arguments: [Expression]) throws -> Value {
        switch try evaluate(target) {
        case .snapshot(let isAfter, let path): return try call(name, isAfter, path, arguments)
        case .string(let text): return try call(name, text, arguments)
        default: throw Failure()
        }
    }

    private func call(_ name: String, _ isAfter: Bool, _ path: [String], _ arguments: [Expression]) throws
        -> Value
    {
        let node = node(isAfter, path)
        func child(_ argument: Expression) throws -> [String] {
            if isUID(argument) {
                let uid = try string(argument)
                // `.` is no legal key either.
                return path + [Key.isLegal(Text(uid)) ? uid : "."]
            }
            let keys = try string(argument).split(separator: "/").map(String.init)
            // A literal path without a key is the node itself; a computed one is null.
            if case .constant = argument.form { return path + keys }
            return path + (keys.isEmpty ? [""] : keys)
        }
        switch name {
        case "val": return convert(RuleValue(node))
        case "exists": return .boolean(!node.isEmpty)
        case "getPriority": return convert(RuleValue(node.priority))
        case "isString":
            if case .string = node.withoutPriority { return .boolean(true) } else { return .boolean(false) }
        case "isNumber": return .boolean(node.doubleValue != nil)
        case "isBoolean":
            if case .boolean = node.withoutPriority { return .boolean(true) } else { return .boolean(false) }
        case "parent":
            guard !path.isEmpty else { throw Failure() }
            return .snapshot(isAfter: isAfter, path.dropLast())
        case "child": return .snapshot(isAfter: isAfter, try child(arguments[0]))
        case "hasChild": return .boolean(!self.node(isAfter, try child(arguments[0])).isEmpty)
        case "hasChildren":
            guard let list = arguments.first else { return .boolean(!node.children.isEmpty) }
            guard case .array(let names) = list.form else { throw Failure() }
            return .boolean(try names.map { !self.node(isAfter, try child($0)).isEmpty }.allSatisfy { $0 })
        default: throw Failure()
        }
    }

    private func call(_ name: String, _ text: String, _ arguments: [Expression]) throws -> Value {
        func texts() throws -> [String] { try arguments.map(string) }
        func split(_ text: String, by separator: String) -> [[UInt8]] {
            var (parts, rest) = ([[UInt8]()], Array(text.utf8)[...])
            while !rest.isEmpty {
                if !separator.isEmpty, rest.starts(with: separator.utf8) {
                    parts.append([])
                    rest = rest.dropFirst(separator.utf8.count)
                } else {
                    parts[parts.count - 1].append(rest.removeFirst())
                }
            }
            return parts
        }
        switch name {
        case "contains":
            let part = try texts()[0]
            return .boolean(part.isEmpty || split(text, by: part).count > 1)
        case "beginsWith": return .boolean(text.utf8.starts(with: try texts()[0].utf8))
        case "endsWith": return .boolean(text.utf8.reversed().starts(with: try texts()[0].utf8.reversed()))
        case "replace":
            let both = try texts()
            let joined = split(text, by: both[0]).joined(separator: Array(both[1].utf8))
            return .string(String(decoding: Array(joined), as: UTF8.self))
        case "toLowerCase": return .string(text.lowercased())
        case "toUpperCase": return .string(text.uppercased())
        case "matches":
            guard case .pattern(let pattern?) = arguments[0].form else { throw Failure() }
            return .boolean(pattern.matchesWithoutTable(Text(text)) == true)
        default: throw Failure()
        }
    }
}
