import PandoBytes

/// What the patterns of one document may still cost, all together.
struct PatternBudget {
    /// Instructions of all automata.
    var instructionCount = RulesLimits.patternInstructionCount
    /// Steps for making automata deterministic, and entries of their tables. Without them a pattern is
    /// matched by its nondeterministic automaton.
    var stepCount = 1 << 24
    var entryCount = 1 << 20
}

/// A compiled pattern of `matches(/…/)` (rules §9).
///
/// Matching is one pass over the text, without backtracking. It uses a table that has the next state for each
/// state and class of characters; or, when that table would be too large, the set of states that the
/// automaton may be in.
package final class Pattern: Sendable {
    private let program: PatternProgram
    private let alphabet: PatternAlphabet
    private let isAnchoredAtStart: Bool
    private let isAnchoredAtEnd: Bool
    /// Nil when it would be too large.
    private let table: Table?

    /// State 0 is the first one. `next` has the successors of each state by class. A final state is its own
    /// successor for every class.
    private struct Table {
        var next: [UInt16] = []
        var accepts: [Bool] = []
        /// The rest of the text cannot change the result.
        var isFinal: [Bool] = []
    }

    /// Entries of one table.
    private static let tableEntryCount = 1 << 15

    /// - Parameter text: The text between the slashes.
    /// - Throws: For an invalid pattern, or one that is too large (``RulesLimits``).
    convenience init(_ text: String, ignoresCase: Bool) throws(IllegalPattern) {
        var budget = PatternBudget()
        try self.init(text, ignoresCase: ignoresCase, budget: &budget)
    }

    init(_ text: String, ignoresCase: Bool, budget: inout PatternBudget) throws(IllegalPattern) {
        guard text.utf8.count <= RulesLimits.patternByteCount else {
            let limit = RulesLimits.patternByteCount
            throw IllegalPattern("Illegal regular expression, it is longer than \(limit) bytes", at: 0)
        }
        let parsed = try PatternParser.parse(text, ignoresCase: ignoresCase)
        isAnchoredAtStart = parsed.isAnchoredAtStart
        isAnchoredAtEnd = parsed.isAnchoredAtEnd
        guard let program = PatternProgram(parsed.tree, limit: RulesLimits.patternStateCount),
            program.instructions.count <= budget.instructionCount
        else { throw IllegalPattern("Illegal regular expression, it has too many states", at: 0) }
        budget.instructionCount -= program.instructions.count
        self.program = program
        alphabet = PatternAlphabet(program.sets)
        table = Self.makeTable(program, alphabet, parsed, &budget)
    }

    /// Subset construction; nil when the budget or the table's bound does not suffice.
    private static func makeTable(
        _ program: PatternProgram, _ alphabet: PatternAlphabet, _ parsed: PatternParser.Result,
        _ budget: inout PatternBudget
    ) -> Table? {
        let classCount = alphabet.classCount
        let capacity = min(tableEntryCount, budget.entryCount) / classCount
        var states = StateSet(capacity: program.instructions.count)
        states.insert(0, of: program)
        var numbers: [[Int32]: UInt16] = [states.sorted: 0]
        var subsets = [states.sorted]
        var table = Table()
        var current = 0
        while current < subsets.count {
            let subset = subsets[current]
            let accepts = subset.contains { program.instructions[Int($0)] == .accept }
            table.accepts.append(accepts)
            let isDecided = accepts && !parsed.isAnchoredAtEnd
            var leadsAway = false
            for place in 0..<classCount {
                budget.stepCount -= subset.count + 1
                guard budget.stepCount > 0 else { return nil }
                guard !isDecided else {
                    table.next.append(UInt16(current))
                    continue
                }
                states.removeAll()
                for state in subset {
                    if case .scalar(let set) = program.instructions[Int(state)],
                        alphabet.contains(place, in: set)
                    {
                        states.insert(state + 1, of: program)
                    }
                }
                if !parsed.isAnchoredAtStart { states.insert(0, of: program) }
                budget.stepCount -= states.count
                let successor = states.sorted
                let number: UInt16
                if let known = numbers[successor] {
                    number = known
                } else {
                    guard subsets.count < capacity else { return nil }
                    number = UInt16(subsets.count)
                    numbers[successor] = number
                    subsets.append(successor)
                }
                table.next.append(number)
                if Int(number) != current { leadsAway = true }
            }
            table.isFinal.append(!leadsAway)
            current += 1
        }
        budget.entryCount -= table.next.count
        return table
    }

    /// Whether the text contains a match, at its ends where the pattern is anchored.
    /// - Parameter stepCount: The available steps, which are reduced. A pattern with a table takes none.
    /// - Returns: nil when it would take more steps.
    /// - Complexity: O(bytes) with a table, else O(bytes × states of the pattern).
    func matches(_ text: Text, stepCount: inout Int) -> Bool? {
        var remaining = stepCount
        defer { stepCount = remaining }
        return text.withBytes { bytes in
            table.map { matches(bytes, $0) } ?? simulate(bytes, &remaining)
        }
    }

    /// The same with the steps of one match (``RulesLimits/patternStepCount``). Only a pattern without a
    /// table and a text of a kilobyte or more can exceed them.
    func matches(_ text: Text) -> Bool? {
        var stepCount = RulesLimits.patternStepCount
        return matches(text, stepCount: &stepCount)
    }

    /// The same result without the table, for tests.
    func matchesWithoutTable(_ text: Text) -> Bool? {
        var remaining = RulesLimits.patternStepCount
        return text.withBytes { simulate($0, &remaining) }
    }

    var hasTable: Bool { table != nil }

    private func matches(_ bytes: Span<UInt8>, _ table: borrowing Table) -> Bool {
        var state = 0
        var index = 0
        let classCount = alphabet.classCount
        while index < bytes.count, !table.isFinal[state] {
            state = Int(table.next[state &* classCount &+ alphabet.nextClass(bytes, &index)])
        }
        return table.accepts[state]
    }

    private func simulate(_ bytes: Span<UInt8>, _ remaining: inout Int) -> Bool? {
        let instructions = program.instructions
        var states = StateSet(capacity: instructions.count)
        var successors = states
        var index = 0
        // Allocating the set of states takes steps too.
        remaining &-= instructions.count / 8
        states.insert(0, of: program)
        while true {
            if !isAnchoredAtEnd || index == bytes.count {
                if states.hasAccepting { return true }
                if index == bytes.count { return false }
            }
            remaining &-= states.stepCount
            guard remaining > 0 else { return nil }
            let place = alphabet.nextClass(bytes, &index)
            successors.removeAll()
            for slot in 0..<states.count {
                let state = states[slot]
                if case .scalar(let set) = instructions[Int(state)], alphabet.contains(place, in: set) {
                    successors.insert(state &+ 1, of: program)
                }
            }
            if !isAnchoredAtStart { successors.insert(0, of: program) }
            swap(&states, &successors)
            if states.count == 0 { return false }
        }
    }
}

/// The states that the automaton may be in, without those that consume no character.
///
/// A sparse set: emptying it costs nothing, and each state is entered once.
private struct StateSet {
    private var dense: [Int32] = []
    /// For each instruction whether it was visited since the set was emptied.
    private var visited: [UInt32]
    private var round: UInt32 = 1
    private var pending: [Int32] = []
    private(set) var hasAccepting = false
    /// The number of instructions visited since the set was emptied.
    private var walkedCount = 0

    init(capacity: Int) {
        visited = Array(repeating: 0, count: capacity)
    }

    var count: Int { dense.count }
    /// The steps for filling and reading the set. Instructions that consume no character cost little, but
    /// there may be many.
    var stepCount: Int { dense.count &+ (walkedCount &- dense.count) / 32 &+ 1 }
    subscript(slot: Int) -> Int32 { dense[slot] }
    var sorted: [Int32] { dense.sorted() }

    mutating func removeAll() {
        dense.removeAll(keepingCapacity: true)
        hasAccepting = false
        walkedCount = 0
        if round == .max {
            for index in visited.indices { visited[index] = 0 }
            round = 0
        }
        round += 1
    }

    /// Inserts the states that an instruction reaches without consuming a character.
    mutating func insert(_ state: Int32, of program: borrowing PatternProgram) {
        pending.append(state)
        while let next = pending.popLast() {
            guard visited[Int(next)] != round else { continue }
            visited[Int(next)] = round
            walkedCount &+= 1
            switch program.instructions[Int(next)] {
            case .jump(let target): pending.append(target)
            case .fork(let first, let second):
                pending.append(second)
                pending.append(first)
            case .scalar: dense.append(next)
            case .accept:
                dense.append(next)
                hasAccepting = true
            }
        }
    }
}
