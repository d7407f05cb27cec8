import PandoTree

// The nodes of snapshots: `data`, `newData` and `root`, and the results of `child` and `parent` (rules §6).

extension Evaluator {
    /// - Parameter part: What of the node is used.
    @inline(__always)
    mutating func node(
        _ program: RuleProgram, _ index: Int32, _ part: ReadLocations.Part = .all
    ) throws(RuleError) -> Node {
        if Observer.isTracking { noteRead(program, index, part) }
        return try bareNode(program, index)
    }

    /// The same, where the caller notes what is read of it.
    mutating func bareNode(_ program: RuleProgram, _ index: Int32) throws(RuleError) -> Node {
        let instruction = program.instructions[Int(index)]
        switch instruction.code {
        case .base: return scene.node(isAfter: instruction.a != 0, depth: Int(instruction.b))
        case .child, .childByKey, .childByText:
            return try step(program, index, from: try bareNode(program, instruction.a))
        case .choice:
            return try bareNode(program, try operand(program, instruction.a) ? instruction.b : instruction.c)
        case .parent, .aboveRoot:
            let place = try place(program, index)
            return scene.node(isAfter: place.isAfter, at: place.keys, isMissing: place.missing > 0)
        default: throw RuleError(reason: .noValue, instruction: index)
        }
    }

    /// Notes a location that is read, unless the written one brings its data. The steps for finding it are
    /// not counted: the observer changes no result.
    mutating func noteRead(_ program: RuleProgram, _ index: Int32, _ part: ReadLocations.Part) {
        var instruction = program.instructions[Int(index)]
        while true {
            switch instruction.code {
            case .child, .childByKey, .childByText:
                instruction = program.instructions[Int(instruction.a)]
                continue
            case .base where instruction.a != 0 && Int(instruction.b) >= writtenLevel: return
            default: break
            }
            break
        }
        let saved = work
        defer { work = saved }
        guard let place = try? place(program, index) else { return }
        // A location deeper than data can be has none, before and after any write.
        if place.missing == 0 { observer.didRead(place.keys[...], part, isAfter: place.isAfter) }
    }

    /// The node of a `.child…` below another.
    mutating func step(
        _ program: RuleProgram, _ index: Int32, from parent: Node
    ) throws(RuleError) -> Node {
        let instruction = program.instructions[Int(index)]
        if instruction.code == .child {
            var node = parent
            for slot in instruction.b..<(instruction.b &+ instruction.c) {
                if node.isEmpty { break }
                node = node[program.keys[Int(slot)]]
            }
            return node
        }
        if instruction.code == .childByKey {
            if Observer.isObserving { _ = try value(program, instruction.c) }
            return parent[scene.keys[Int(instruction.b)]]
        }
        // `child(auth.uid)`: its key is known.
        if program.instructions[Int(instruction.b)].code == .uid, let key = scene.auth?.uidKey {
            if Observer.isObserving { _ = try value(program, instruction.b) }
            return parent[key]
        }
        var segments = try segments(program, instruction.b)
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
}
