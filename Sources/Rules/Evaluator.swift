import PandoBytes
import PandoTree

/// Evaluates programs (rules §7).
///
/// Recursion is as deep as the expression, which ``RulesLimits/expressionDepth`` bounds.
struct Evaluator<Observer: RuleObserver> {
    var scene: EvaluationContext
    var observer: Observer
    /// The keys of the path that is written; used only for an observer that tracks.
    var writtenLevel = 0
    var work: EvaluationBudget

    init(scene: EvaluationContext, observer: Observer, work: EvaluationBudget) {
        self.scene = scene
        self.observer = observer
        self.work = work
    }

    /// Whether a rule is true at the context's location. A rule with an error is not (§2.2).
    @inline(__always)
    mutating func holds(_ rule: RuleExpression, _ kind: RuleKind) -> Bool {
        if Observer.isObserving { return holdsObserved(rule, kind) }
        guard let program = rule.program else { return rule.constant ?? false }
        guard work.spend(EvaluationBudget.perRule) else { return false }
        return (try? boolean(program, program.root)) ?? false
    }

    private mutating func holdsObserved(_ rule: RuleExpression, _ kind: RuleKind) -> Bool {
        observer.willEvaluate(rule, kind)
        let place = scene.keys[..<scene.level]
        guard let program = rule.program else {
            observer.didEvaluate(rule, kind, rule.constant, nil, at: place)
            return rule.constant ?? false
        }
        do {
            try spend(EvaluationBudget.perRule, program.root)
            let outcome = try boolean(program, program.root)
            observer.didEvaluate(rule, kind, outcome, nil, at: place)
            return outcome
        } catch {
            observer.didEvaluate(rule, kind, nil, error, at: place)
            return false
        }
    }

    /// - Throws: When the request has no steps left.
    @inline(__always)
    mutating func spend(_ stepCount: Int, _ index: Int32) throws(RuleError) {
        guard work.spend(stepCount) else { throw RuleError(reason: .tooMuchWork, instruction: index) }
    }

    // MARK: Booleans

    private mutating func boolean(_ program: RuleProgram, _ index: Int32) throws(RuleError) -> Bool {
        try spend(EvaluationBudget.perInstruction, index)
        let result = try bareBoolean(program, index)
        if Observer.isObserving { observer.value(index, .boolean(result)) }
        return result
    }

    /// An operand of logic, which is reported to the observer.
    @inline(__always)
    mutating func operand(_ program: RuleProgram, _ index: Int32) throws(RuleError) -> Bool {
        guard Observer.isObserving else { return try boolean(program, index) }
        do {
            let result = try boolean(program, index)
            observer.operand(index, result)
            return result
        } catch {
            observer.operand(index, nil)
            throw error
        }
    }

    private mutating func bareBoolean(_ program: RuleProgram, _ index: Int32) throws(RuleError) -> Bool {
        let instruction = program.instructions[Int(index)]
        let (a, b) = (instruction.a, instruction.b)
        switch instruction.code {
        case .boolean: return a != 0
        case .not: return !(try operand(program, a))
        case .and:
            for slot in a..<(a &+ b) where !(try operand(program, program.lists[Int(slot)])) { return false }
            return true
        case .or:
            for slot in a..<(a &+ b) where try operand(program, program.lists[Int(slot)]) { return true }
            return false
        case .choice: return try boolean(program, try operand(program, a) ? b : instruction.c)
        case .equal: return try equals(program, instruction, index)
        case .notEqual: return !(try equals(program, instruction, index))
        case .less, .lessOrEqual, .greater, .greaterOrEqual:
            let left = try value(program, a)
            let right = try value(program, b)
            try spend(RuleValue.comparisonStepCount(left, right), index)
            do { return try RuleValue.ordered(left, right, instruction.code) } catch {
                throw RuleError(reason: error.reason, instruction: index)
            }
        case .exists: return !(try node(program, a, .existence)).isEmpty
        case .isString, .isNumber, .isBoolean, .hasChildren: return try hasKind(program, instruction)
        case .hasAllChildren: return try hasAllChildren(program, instruction)
        case .contains:
            let whole = try text(program, a)
            let part = try text(program, b)
            try spend((whole.utf8Count + part.utf8Count) * EvaluationBudget.perSearchByte, index)
            return whole.contains(part)
        case .beginsWith, .endsWith:
            let whole = try text(program, a)
            let part = try text(program, b)
            try spend(part.utf8Count, index)
            return instruction.code == .beginsWith ? whole.hasPrefix(part) : whole.hasSuffix(part)
        case .matches: return try matches(program, instruction, index)
        default:
            guard case .boolean(let result) = try value(program, index) else {
                throw RuleError(reason: .noBoolean, instruction: index)
            }
            return result
        }
    }

    @inline(__always)
    private mutating func equals(
        _ program: RuleProgram, _ instruction: RuleProgram.Instruction, _ index: Int32
    ) throws(RuleError) -> Bool {
        if !Observer.isObserving {
            let (first, second) = (
                program.instructions[Int(instruction.a)], program.instructions[Int(instruction.b)]
            )
            if first.code == .key {
                return try equals(program, scene.keys[Int(first.a)], instruction.b, index)
            }
            if second.code == .key {
                return try equals(program, scene.keys[Int(second.a)], instruction.a, index)
            }
        }
        return try equals(try value(program, instruction.a), try value(program, instruction.b), index)
    }

    /// Compares a key with a text, as in `$user === auth.uid`, without making a text of the key. It takes as
    /// many steps as with one.
    private mutating func equals(
        _ program: RuleProgram, _ key: Key, _ other: Int32, _ index: Int32
    ) throws(RuleError) -> Bool {
        let other = try value(program, other)
        try spend(EvaluationBudget.perInstruction, index)
        guard case .string(let text) = other else { return try equals(.string(key.text), other, index) }
        try spend(min(key.utf8Count, text.utf8Count) / EvaluationBudget.bytesPerStep, index)
        return key.isSpelled(text)
    }

    @inline(__always)
    private mutating func equals(_ left: RuleValue, _ right: RuleValue, _ index: Int32) throws(RuleError)
        -> Bool
    {
        try spend(RuleValue.comparisonStepCount(left, right), index)
        return RuleValue.equals(left, right)
    }

    private mutating func hasKind(
        _ program: RuleProgram, _ instruction: RuleProgram.Instruction
    ) throws(RuleError) -> Bool {
        switch (instruction.code, try node(program, instruction.a).withoutPriority) {
        case (.isString, .string), (.isNumber, .integer), (.isNumber, .double), (.isBoolean, .boolean),
            (.hasChildren, .object):
            true
        default: false
        }
    }

    private mutating func matches(
        _ program: RuleProgram, _ instruction: RuleProgram.Instruction, _ index: Int32
    ) throws(RuleError) -> Bool {
        let text = try text(program, instruction.a)
        let pattern = program.patterns[Int(instruction.b)]
        if pattern.hasTable { try spend(text.utf8Count * EvaluationBudget.perTableByte, index) }
        let limit = min(RulesLimits.patternStepCount, work.remaining / EvaluationBudget.perPatternStep)
        var remaining = limit
        let result = pattern.matches(text, stepCount: &remaining)
        if let result {
            try spend((limit - remaining) * EvaluationBudget.perPatternStep, index)
            return result
        }
        guard limit == RulesLimits.patternStepCount else {
            // It would have gone on had there been more.
            try spend(.max, index)
            return false
        }
        try spend(limit * EvaluationBudget.perPatternStep, index)
        throw RuleError(reason: .tooSlow, instruction: index)
    }

    /// All names are evaluated, even after a missing child: an error in any of them is an error.
    private mutating func hasAllChildren(
        _ program: RuleProgram, _ instruction: RuleProgram.Instruction
    ) throws(RuleError) -> Bool {
        let isTracked = isTracked(program, instruction.a)
        let parent =
            isTracked
            ? try locatedNode(program, instruction.a)
            : LocatedNode(node: try bareNode(program, instruction.a))
        var hasAll = true
        for slot in instruction.b..<(instruction.b &+ instruction.c) {
            let index = program.lists[Int(slot)]
            try spend(EvaluationBudget.perInstruction, index)
            // An empty name is the node itself.
            var child = parent
            if index != instruction.a {
                if isTracked {
                    child = try locatedStep(program, index, from: parent)
                } else {
                    child.node = try step(program, index, from: parent.node)
                }
            }
            note(child, .existence)
            if child.node.isEmpty { hasAll = false }
        }
        return hasAll
    }

    // MARK: Values

    mutating func value(_ program: RuleProgram, _ index: Int32) throws(RuleError) -> RuleValue {
        try spend(EvaluationBudget.perInstruction, index)
        let result = try bareValue(program, index)
        if Observer.isObserving { observer.value(index, result) }
        return result
    }

    private mutating func bareValue(_ program: RuleProgram, _ index: Int32) throws(RuleError) -> RuleValue {
        let instruction = program.instructions[Int(index)]
        let (a, b) = (instruction.a, instruction.b)
        switch instruction.code {
        case .null: return .null
        case .boolean: return .boolean(a != 0)
        case .number: return .number(program.numbers[Int(a)])
        case .string: return .string(program.texts[Int(a)])
        case .now: return .number(scene.now)
        case .key: return .string(scene.keys[Int(a)].text)
        case .auth: return scene.auth.map { $0.root.value } ?? .null
        case .uid: return scene.auth.map { $0.uid.value } ?? .null
        case .claim, .claimMember: return try claim(program, index).value
        case .query: return scene.queryValue(QueryProperty.all[Int(a)])
        case .value: return RuleValue(try node(program, a))
        case .priority: return RuleValue(try node(program, a).priority)
        case .choice: return try value(program, try operand(program, a) ? b : instruction.c)
        case .length:
            let text = try text(program, a)
            try spend(text.utf8Count, index)
            return .number(Double(text.utf16Count))
        case .toLowerCase, .toUpperCase: return .string(try cased(program, instruction, index))
        case .replace: return .string(try replace(program, instruction, index))
        case .add, .subtract, .multiply, .divide, .remainder:
            let left = try value(program, a)
            let right = try value(program, b)
            try spend(RuleValue.sumStepCount(left, right), index)
            do {
                return instruction.code == .add
                    ? try RuleValue.sum(left, right) : try RuleValue.arithmetic(left, right, instruction.code)
            } catch { throw RuleError(reason: error.reason, instruction: index) }
        case .negate:
            let operand = try value(program, a)
            do { return try RuleValue.negated(operand) } catch {
                throw RuleError(reason: error.reason, instruction: index)
            }
        case .exists, .isString, .isNumber, .isBoolean, .hasChildren, .hasAllChildren, .contains, .beginsWith,
            .endsWith, .matches, .equal, .notEqual, .less, .lessOrEqual, .greater, .greaterOrEqual, .not,
            .and, .or:
            return .boolean(try bareBoolean(program, index))
        case .base, .child, .childByKey, .childByText, .parent, .aboveRoot:
            throw RuleError(reason: .noValue, instruction: index)
        }
    }

    private mutating func replace(
        _ program: RuleProgram, _ instruction: RuleProgram.Instruction, _ index: Int32
    ) throws(RuleError) -> Text {
        let whole = try text(program, instruction.a)
        let old = try text(program, instruction.b)
        let new = try text(program, instruction.c)
        // The text that is searched, and the result, which may be longer.
        try spend((whole.utf8Count + old.utf8Count) * EvaluationBudget.perSearchByte, index)
        guard let result = whole.replacing(old, with: new, byteLimit: RulesLimits.textByteCount) else {
            try spend(RulesLimits.textByteCount / EvaluationBudget.bytesPerStep, index)
            throw RuleError(reason: .tooLong, instruction: index)
        }
        try spend(result.utf8Count / EvaluationBudget.bytesPerStep, index)
        return result
    }

    private mutating func cased(
        _ program: RuleProgram, _ instruction: RuleProgram.Instruction, _ index: Int32
    ) throws(RuleError) -> Text {
        let text = try text(program, instruction.a)
        let isLower = instruction.code == .toLowerCase
        try spend(text.utf8Count * EvaluationBudget.perASCIIByte, index)
        let result: Text
        if text.isASCII {
            result = text.withASCIICase(of: isLower ? 0x41...0x5A : 0x61...0x7A)
        } else {
            try spend(text.utf8Count * EvaluationBudget.perCasedByte, index)
            result = isLower ? text.lowercased : text.uppercased
        }
        guard result.utf8Count <= RulesLimits.textByteCount else {
            throw RuleError(reason: .tooLong, instruction: index)
        }
        return result
    }

    /// A string; any other value is an error.
    mutating func text(_ program: RuleProgram, _ index: Int32) throws(RuleError) -> Text {
        switch try value(program, index) {
        case .string(let text): return text
        case .null: throw RuleError(reason: .nullText, instruction: index)
        default: throw RuleError(reason: .noText, instruction: index)
        }
    }

    // MARK: Claims

    private mutating func claim(_ program: RuleProgram, _ index: Int32) throws(RuleError) -> Claim {
        let instruction = program.instructions[Int(index)]
        switch instruction.code {
        case .auth: return scene.auth?.root ?? .null
        case .uid: return scene.auth?.uid ?? .null
        case .claim:
            guard var claim = scene.auth?.root else { return .null }
            let names = program.claimPaths[Int(instruction.a)]
            try spend(names.count &* EvaluationBudget.perKey, index)
            for name in names { claim = claim[name] }
            return claim
        case .claimMember:
            try spend(EvaluationBudget.perInstruction &+ EvaluationBudget.perKey, index)
            let object = try claim(program, instruction.a)
            switch try value(program, instruction.b) {
            case .string(let name):
                try spend(name.utf8Count, index)
                return object[name]
            case .number(let number): return object[Text(numberText(number))]
            case .null: throw RuleError(reason: .nullText, instruction: instruction.b)
            default: throw RuleError(reason: .noText, instruction: instruction.b)
            }
        case .choice:
            try spend(EvaluationBudget.perInstruction, index)
            return try claim(program, try operand(program, instruction.a) ? instruction.b : instruction.c)
        default: throw RuleError(reason: .noValue, instruction: index)
        }
    }
}
