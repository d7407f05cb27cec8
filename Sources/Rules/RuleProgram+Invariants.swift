extension RuleProgram {
    /// Whether an instruction refers only to earlier ones, and everything it refers to exists: so evaluation
    /// reads no table out of bounds, and ends. O(program): asked only in debug builds.
    var isWellFormed: Bool {
        ranges.count == instructions.count && instructions.indices.contains(Int(root))
            && operands.allSatisfy { instructions.indices.contains(Int($0)) }
            && instructions.indices.allSatisfy { isWellFormed(instructions[$0], at: Int32($0)) }
    }

    private func isWellFormed(_ instruction: Instruction, at index: Int32) -> Bool {
        let (a, b, c) = (instruction.a, instruction.b, instruction.c)
        /// Whether they stand before this one.
        func areEarlier(_ references: Int32...) -> Bool { references.allSatisfy { 0..<index ~= $0 } }
        func isList(_ start: Int32, _ count: Int32) -> Bool {
            count >= 0 && start >= 0 && Int(start) + Int(count) <= lists.count
                && lists[Int(start)..<Int(start + count)].allSatisfy { areEarlier($0) }
        }
        switch instruction.code {
        case .null, .boolean, .now, .auth, .uid, .aboveRoot: return true
        case .number: return numbers.indices.contains(Int(a))
        case .string: return texts.indices.contains(Int(a))
        case .key: return a >= 0
        case .claim: return claimPaths.indices.contains(Int(a))
        case .query: return QueryProperty.all.indices.contains(Int(a))
        case .base: return b >= 0
        case .child: return areEarlier(a) && b >= 0 && c > 0 && Int(b) + Int(c) <= keys.count
        case .childByKey: return areEarlier(a, c) && b >= 0
        case .matches: return areEarlier(a) && patterns.indices.contains(Int(b))
        case .hasAllChildren: return areEarlier(a) && isList(b, c)
        case .and, .or: return isList(a, b)
        case .replace, .choice: return areEarlier(a, b, c)
        case .claimMember, .childByText, .contains, .beginsWith, .endsWith, .equal, .notEqual, .less,
            .lessOrEqual, .greater, .greaterOrEqual, .add, .subtract, .multiply, .divide, .remainder:
            return areEarlier(a, b)
        case .parent, .value, .priority, .exists, .isString, .isNumber, .isBoolean, .hasChildren,
            .toLowerCase, .toUpperCase, .length, .negate, .not:
            return areEarlier(a)
        }
    }
}
