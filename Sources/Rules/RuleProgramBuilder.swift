import PandoBytes
import PandoTree

/// Collects the instructions of a rule's program and their constants. It checks no types:
/// ``ExpressionCompiler`` does.
///
/// Invariant: an instruction stands in `parts` after those whose values it uses.
struct RuleProgramBuilder {
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

    /// The known location of a snapshot: an origin, and keys below it. So `data.child('a').parent()` is
    /// `data`, without an instruction.
    struct Place {
        enum Origin {
            /// The ancestor of the rule's node at this depth, in the tree before or after.
            case tree(isAfter: Bool, depth: Int)
            case instruction(Int32)
        }

        var origin: Origin
        var keys: [Key] = []
    }

    private(set) var parts = RuleProgram.Parts()

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

    // MARK: Claims, patterns, locations

    mutating func matches(_ pattern: Pattern, _ target: Operand, _ range: Range<Int>) -> Operand {
        parts.patterns.append(pattern)
        return emit(.matches, target.instruction, Int32(parts.patterns.count - 1), type: .boolean, range)
    }

    /// Nested properties of `auth` become one path.
    mutating func claim(_ name: Text, of target: Operand, _ range: Range<Int>) -> Operand {
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

    private func place(of target: Operand) -> Place {
        target.place ?? Place(origin: .instruction(target.instruction))
    }

    /// The parent of a snapshot, without an instruction where its location is known.
    mutating func parent(of target: Operand, _ range: Range<Int>) -> Operand {
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

    /// The child of a snapshot that an argument names: a literal path becomes part of the location.
    ///
    /// - Parameter isLiteral: Whether the argument is a literal. A literal path without keys is the node
    ///   itself.
    mutating func child(
        _ argument: Operand, isLiteral: Bool, of target: Operand, _ argumentRange: Range<Int>,
        _ range: Range<Int>
    ) -> Operand {
        if case .string(let path) = argument.constant {
            let keys = path.segments
            // A computed path without keys names no node, which the evaluation finds.
            if !keys.isEmpty || isLiteral {
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
            .childByText, locate(target, range), instruction(of: argument, argumentRange), type: .snapshot,
            range)
    }

    // MARK: Operands of logic

    /// The number of operands noted so far, for ``forgetOperands(from:to:)``.
    var operandCount: Int { parts.operands.count }

    /// Removes operands that are never evaluated.
    mutating func forgetOperands(from start: Int, to end: Int) {
        parts.operands.removeSubrange(start..<end)
    }

    /// The code of the instruction that gives the operand's value; nil where there is none.
    func code(of operand: Operand) -> RuleProgram.Code? {
        operand.instruction >= 0 ? parts.instructions[Int(operand.instruction)].code : nil
    }
}

extension Text {
    /// The keys of a literal path: split on `/`, without empty segments. A segment that is no valid key names
    /// no node (§6: `.` and `..` are not resolved). For computed paths see ``PathSegments``.
    var segments: [Key] {
        string.utf8.split(separator: UInt8(ascii: "/")).map { Key(unchecked: Text(String(Substring($0)))) }
    }
}
