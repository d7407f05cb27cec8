import PandoBytes
import PandoTree

// The nodes of snapshots: `data`, `newData` and `root`, and the results of `child` and `parent` (rules §6).

extension Evaluator {
    /// - Parameter part: What of the node is used.
    @inline(__always)
    mutating func node(
        _ program: RuleProgram, _ index: Int32, _ part: ReadLocations.Part = .all
    ) throws(RuleError) -> Node {
        guard isTracked(program, index) else { return try bareNode(program, index) }
        let located = try locatedNode(program, index)
        note(located, part)
        return located.node
    }

    /// Whether reads of a snapshot are noted: unless it is below the written location, whose data the write
    /// brings.
    @inline(__always)
    func isTracked(_ program: RuleProgram, _ index: Int32) -> Bool {
        Observer.isTracking && !isBelowWritten(program, index)
    }

    private func isBelowWritten(_ program: RuleProgram, _ index: Int32) -> Bool {
        var instruction = program.instructions[Int(index)]
        while true {
            switch instruction.code {
            case .child, .childByKey, .childByText: instruction = program.instructions[Int(instruction.a)]
            case .base: return instruction.a != 0 && Int(instruction.b) >= writtenLevel
            default: return false
            }
        }
    }

    mutating func note(_ located: LocatedNode, _ part: ReadLocations.Part) {
        if let keys = located.keys { observer.didRead(keys[...], part, isAfter: located.isAfter) }
    }

    /// The same as ``node(_:_:_:)``, where the caller notes what is read of it, or nothing has to be noted.
    mutating func bareNode(_ program: RuleProgram, _ index: Int32) throws(RuleError) -> Node {
        let instruction = program.instructions[Int(index)]
        switch instruction.code {
        case .base: return try base(instruction, index)
        case .child, .childByKey, .childByText:
            try spend(EvaluationBudget.perInstruction, index)
            return try step(program, index, from: try bareNode(program, instruction.a))
        case .choice:
            try spend(EvaluationBudget.perInstruction, index)
            return try bareNode(program, try operand(program, instruction.a) ? instruction.b : instruction.c)
        case .parent, .aboveRoot: return try node(at: try place(program, index), index)
        default: throw RuleError(reason: .noValue, instruction: index)
        }
    }

    /// The same with its location. Each instruction is evaluated once, as in ``bareNode(_:_:)``, and takes as
    /// many steps: the observer changes no result.
    mutating func locatedNode(_ program: RuleProgram, _ index: Int32) throws(RuleError) -> LocatedNode {
        let instruction = program.instructions[Int(index)]
        switch instruction.code {
        case .base:
            return LocatedNode(
                node: try base(instruction, index), isAfter: instruction.a != 0,
                keys: Array(scene.keys[..<Int(instruction.b)]))
        case .child, .childByKey, .childByText:
            try spend(EvaluationBudget.perInstruction, index)
            return try locatedStep(program, index, from: try locatedNode(program, instruction.a))
        case .choice:
            try spend(EvaluationBudget.perInstruction, index)
            return try locatedNode(
                program, try operand(program, instruction.a) ? instruction.b : instruction.c)
        case .parent, .aboveRoot:
            let place = try place(program, index)
            return LocatedNode(
                node: try node(at: place, index), isAfter: place.isAfter,
                keys: place.missing == 0 ? place.keys : nil)
        default: throw RuleError(reason: .noValue, instruction: index)
        }
    }

    @inline(__always)
    private mutating func base(
        _ instruction: RuleProgram.Instruction, _ index: Int32
    ) throws(RuleError) -> Node {
        let (isAfter, depth) = (instruction.a != 0, Int(instruction.b))
        let lookups = scene.lookupCount(isAfter: isAfter, depth: depth)
        try spend(EvaluationBudget.perInstruction &+ lookups &* EvaluationBudget.perKey, index)
        return scene.node(isAfter: isAfter, depth: depth)
    }

    private mutating func node(at place: Place, _ index: Int32) throws(RuleError) -> Node {
        try spend(place.keys.count * EvaluationBudget.perKey, index)
        return scene.node(isAfter: place.isAfter, at: place.keys, isMissing: place.missing > 0)
    }

    /// The node of a `.child…` below another.
    mutating func step(
        _ program: RuleProgram, _ index: Int32, from parent: Node
    ) throws(RuleError) -> Node {
        let instruction = program.instructions[Int(index)]
        switch instruction.code {
        case .child:
            try spend(Int(instruction.c) &* EvaluationBudget.perKey, index)
            var node = parent
            for slot in instruction.b..<(instruction.b &+ instruction.c) {
                if node.isEmpty { break }
                node = node[program.keys[Int(slot)]]
            }
            return node
        case .childByKey:
            try spendStep(by: instruction.c, program, index)
            return parent[scene.keys[Int(instruction.b)]]
        default:
            guard let key = knownKey(program, instruction) else {
                return try node(along: try segments(program, instruction.b), from: parent, index)
            }
            try spendStep(by: instruction.b, program, index)
            return parent[key]
        }
    }

    /// The same with its location.
    mutating func locatedStep(
        _ program: RuleProgram, _ index: Int32, from parent: LocatedNode
    ) throws(RuleError) -> LocatedNode {
        let instruction = program.instructions[Int(index)]
        var child = parent
        if instruction.code == .childByText, knownKey(program, instruction) == nil {
            var segments = try segments(program, instruction.b)
            child.node = try node(along: segments, from: parent.node, index)
            while let key = segments.next() { child.append(key) }
            // There is no such node.
            if segments.isLost || segments.count == 0 { child.keys = nil }
            return child
        }
        child.node = try step(program, index, from: parent.node)
        switch instruction.code {
        case .child:
            for slot in instruction.b..<(instruction.b &+ instruction.c) {
                child.append(program.keys[Int(slot)])
            }
        case .childByKey: child.append(scene.keys[Int(instruction.b)])
        default: if let key = knownKey(program, instruction) { child.append(key) }
        }
        return child
    }

    /// The key of `child(auth.uid)`, which is known; nil for any other text.
    private func knownKey(_ program: RuleProgram, _ instruction: RuleProgram.Instruction) -> Key? {
        program.instructions[Int(instruction.b)].code == .uid ? scene.auth?.uidKey : nil
    }

    /// Spends the steps of a lookup by a key that needs no evaluation. Observers get its value.
    private mutating func spendStep(
        by operand: Int32, _ program: RuleProgram, _ index: Int32
    ) throws(RuleError) {
        if Observer.isObserving {
            _ = try value(program, operand)
            try spend(EvaluationBudget.perKey, index)
        } else {
            try spend(EvaluationBudget.perInstruction &+ EvaluationBudget.perKey, index)
        }
    }

    /// The node below another along a computed path.
    private mutating func node(
        along path: PathSegments, from parent: Node, _ index: Int32
    ) throws(RuleError) -> Node {
        var segments = path
        var node = parent
        while !node.isEmpty, let key = segments.next() { node = node[key] }
        try spend(segments.offset + (segments.count + 1) * EvaluationBudget.perKey, index)
        // An empty computed path is not the node itself: an empty value must not give access to the parent.
        return segments.isLost || segments.count == 0 ? .empty : node
    }

    /// The location of a snapshot whose parent is not known before the evaluation.
    private struct Place {
        var isAfter: Bool
        var keys: [Key]
        /// The number of further keys, which lead so deep that no data can be there.
        var missing = 0

        mutating func append(_ key: Key) {
            if missing == 0, keys.count <= Limits.pathDepth { keys.append(key) } else { missing += 1 }
        }
    }

    private mutating func place(_ program: RuleProgram, _ index: Int32) throws(RuleError) -> Place {
        let instruction = program.instructions[Int(index)]
        try spend(EvaluationBudget.perInstruction, index)
        switch instruction.code {
        case .base: return Place(isAfter: instruction.a != 0, keys: Array(scene.keys[..<Int(instruction.b)]))
        case .child:
            var place = try place(program, instruction.a)
            for slot in instruction.b..<(instruction.b &+ instruction.c) {
                place.append(program.keys[Int(slot)])
            }
            return place
        case .childByKey:
            var place = try place(program, instruction.a)
            place.append(scene.keys[Int(instruction.b)])
            return place
        case .childByText:
            var place = try place(program, instruction.a)
            var segments = try segments(program, instruction.b)
            while let key = segments.next() { place.append(key) }
            if segments.isLost {
                place.missing += segments.skipRest()
            } else if segments.count == 0 {
                place.missing += 1
            }
            try spend(segments.offset + (segments.count + 1) * EvaluationBudget.perKey, index)
            return place
        case .parent:
            var place = try place(program, instruction.a)
            if place.missing > 0 {
                place.missing -= 1
            } else if place.keys.popLast() == nil {
                throw RuleError(reason: .aboveRoot, instruction: index)
            }
            return place
        case .choice:
            return try place(program, try operand(program, instruction.a) ? instruction.b : instruction.c)
        case .aboveRoot: throw RuleError(reason: .aboveRoot, instruction: index)
        default: throw RuleError(reason: .noValue, instruction: index)
        }
    }

    /// The keys of an argument of `child`, `hasChild` or `hasChildren` that is computed. `auth.uid` is one
    /// key, as `$x` is; every other text may be a path.
    mutating func segments(_ program: RuleProgram, _ index: Int32) throws(RuleError) -> PathSegments {
        let text = try text(program, index)
        return program.instructions[Int(index)].code == .uid
            ? PathSegments(oneKey: text) : PathSegments(text)
    }
}
