import PandoBytes
import PandoTree

/// The value of an expression at run time (rules §7).
enum RuleValue {
    case null
    case boolean(Bool)
    case number(Double)
    case string(Text)
    /// A node with children, or a claim that is an object or array. Only its existence is known.
    case object
}

extension RuleValue {
    /// The result of `val()`, which has no priorities.
    init(_ node: Node) {
        switch node {
        case .empty: self = .null
        case .boolean(let value): self = .boolean(value)
        case .integer(let value): self = .number(Double(value))
        case .double(let value): self = .number(value)
        case .string(let text): self = .string(text)
        case .object: self = .object
        case .prioritized(let box): self.init(box.node)
        }
    }

    init(_ priority: Priority?) {
        switch priority {
        case nil: self = .null
        case .number(let value): self = .number(value)
        case .string(let text): self = .string(text)
        }
    }
}

/// Why and at which instruction an evaluation fails. Then the whole rule fails (§7).
struct RuleError: Error, Equatable {
    enum Reason: UInt8 {
        case nullOperand, wrongOperand, differentTypes, nullText, noText, noBoolean, noValue,
            aboveRoot
        case tooLong, tooSlow, tooMuchWork
    }

    let reason: Reason
    let instruction: Int32
}

extension RuleError.Reason: CustomStringConvertible {
    var description: String {
        switch self {
        case .nullOperand: "an operand is null"
        case .wrongOperand: "an operand has a type that the operator cannot take"
        case .differentTypes: "a number and a string cannot be ordered"
        case .nullText: "a string is needed where there is null"
        case .noText: "a string is needed where there is another value"
        case .noBoolean: "a boolean is needed where there is another value"
        case .noValue: "a snapshot is no value"
        case .aboveRoot: "the root has no parent"
        case .tooLong: "a string grows beyond \(RulesLimits.textByteCount) bytes"
        case .tooSlow: "matching takes more than \(RulesLimits.patternStepCount) steps"
        case .tooMuchWork: "the rules take too much work for one request"
        }
    }
}

// The steps of operators (``EvaluationBudget``).
extension RuleValue {
    /// The steps of `==` and the orderings: two texts may be compared to the end of the shorter one.
    @inline(__always)
    static func comparisonStepCount(_ left: RuleValue, _ right: RuleValue) -> Int {
        guard case .string(let a) = left, case .string(let b) = right else { return 0 }
        return min(a.utf8Count, b.utf8Count) / EvaluationBudget.bytesPerStep
    }

    /// The steps of `+`.
    @inline(__always)
    static func sumStepCount(_ left: RuleValue, _ right: RuleValue) -> Int {
        switch (left, right) {
        case (.string(let a), .string(let b)):
            EvaluationBudget.perText + (a.utf8Count + b.utf8Count) / EvaluationBudget.bytesPerStep
        case (.string(let text), _), (_, .string(let text)):
            EvaluationBudget.perText + text.utf8Count / EvaluationBudget.bytesPerStep
        default: 0
        }
    }
}

// The operators, for the evaluation and for constant folding. They throw the reason alone; the caller adds
// the instruction.
extension RuleValue {
    /// `==`: false across types. Objects are equal to nothing, since their content is not compared.
    static func equals(_ left: RuleValue, _ right: RuleValue) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.boolean(let a), .boolean(let b)): a == b
        case (.number(let a), .number(let b)): a == b
        case (.string(let a), .string(let b)): a == b
        default: false
        }
    }

    /// `<`, `<=`, `>` or `>=`: numbers with numbers, strings with strings by UTF-16 code units.
    static func ordered(
        _ left: RuleValue, _ right: RuleValue, _ code: RuleProgram.Code
    ) throws(FailedOperation) -> Bool {
        switch (left, right) {
        case (.number(let a), .number(let b)):
            switch code {
            case .less: return a < b
            case .lessOrEqual: return a <= b
            case .greater: return a > b
            default: return a >= b
            }
        case (.string(let a), .string(let b)):
            let order = Text.compare(a, b)
            switch code {
            case .less: return order < 0
            case .lessOrEqual: return order <= 0
            case .greater: return order > 0
            default: return order >= 0
            }
        case (.number, .string), (.string, .number): throw FailedOperation(.differentTypes)
        default: throw operandError(left, right)
        }
    }

    /// `+`: a sum, or a concatenation.
    static func sum(_ left: RuleValue, _ right: RuleValue) throws(FailedOperation) -> RuleValue {
        switch (left, right) {
        case (.number(let a), .number(let b)): return .number(a + b)
        case (.string(let a), .string(let b)): return .string(try joined(a, b))
        case (.string(let a), .number(let b)): return .string(try joined(a, Text(numberText(b))))
        case (.number(let a), .string(let b)): return .string(try joined(Text(numberText(a)), b))
        default: throw operandError(left, right)
        }
    }

    /// `-`, `*`, `/` or `%`. A division by zero is always NaN.
    static func arithmetic(
        _ left: RuleValue, _ right: RuleValue, _ code: RuleProgram.Code
    ) throws(FailedOperation) -> RuleValue {
        guard case .number(let a) = left, case .number(let b) = right else { throw operandError(left, right) }
        switch code {
        case .subtract: return .number(a - b)
        case .multiply: return .number(a * b)
        case .divide: return .number(b == 0 ? .nan : a / b)
        default: return .number(b == 0 ? .nan : a.truncatingRemainder(dividingBy: b))
        }
    }

    static func negated(_ value: RuleValue) throws(FailedOperation) -> RuleValue {
        guard case .number(let number) = value else { throw operandError(value, value) }
        return .number(-number)
    }

    private static func operandError(_ left: RuleValue, _ right: RuleValue) -> FailedOperation {
        if case .null = left { return FailedOperation(.nullOperand) }
        if case .null = right { return FailedOperation(.nullOperand) }
        return FailedOperation(.wrongOperand)
    }

    private static func joined(_ left: Text, _ right: Text) throws(FailedOperation) -> Text {
        guard left.utf8Count + right.utf8Count <= RulesLimits.textByteCount else {
            throw FailedOperation(.tooLong)
        }
        return Text(joining: left, right)
    }
}

/// The reason of an error whose instruction is not known yet.
struct FailedOperation: Error {
    let reason: RuleError.Reason

    init(_ reason: RuleError.Reason) {
        self.reason = reason
    }
}

/// A number as in JavaScript: `1`, `0.5`, `1e+21`, `NaN`.
func numberText(_ value: Double) -> String {
    if let integer = Int64(exactly: value), integer.magnitude < 1 << 53 { return String(integer) }
    guard value.isFinite else { return value.isNaN ? "NaN" : value < 0 ? "-Infinity" : "Infinity" }
    // The fewest digits that represent the number, without point and exponent, and the position of the point.
    let parts = value.magnitude.description.split(separator: "e")
    let places = parts[0].split(separator: ".")
    var point = places[0].count + (parts.count > 1 ? Int(parts[1]) ?? 0 : 0)
    var digits = places.joined()
    while digits.hasPrefix("0") {
        digits.removeFirst()
        point -= 1
    }
    while digits.hasSuffix("0") { digits.removeLast() }
    let sign = value < 0 ? "-" : ""
    switch point {
    case _ where point >= digits.count && point <= 21:
        return sign + digits + String(repeating: "0", count: point - digits.count)
    case 1...21: return sign + digits.prefix(point) + "." + digits.dropFirst(point)
    case -5...0: return sign + "0." + String(repeating: "0", count: -point) + digits
    default:
        let exponent = point - 1
        let fraction = digits.count > 1 ? "." + digits.dropFirst() : ""
        return sign + digits.prefix(1) + fraction + "e" + (exponent < 0 ? "-" : "+")
            + String(exponent.magnitude)
    }
}
