/// A pattern as a nondeterministic automaton, with classes of characters.
///
///     tree          (a|b)+c
///     instructions  0 fork 1 3 ; 1 scalar {a} ; 2 jump 4 ; 3 scalar {b} ; 4 fork 0 5 ; 5 scalar {c} ;
///                   6 accept
///
/// Always true: every target exists, and the last instruction accepts.
struct PatternProgram {
    enum Instruction: Equatable {
        /// Consumes a character of the set and continues with the next instruction.
        case scalar(set: Int32)
        case jump(Int32)
        case fork(Int32, Int32)
        case accept
    }

    private(set) var instructions: [Instruction] = []
    /// No two alike.
    private(set) var sets: [ScalarSet] = []
    private var setIndexes: [ScalarSet: Int32] = [:]
    /// The set that was asked for last: a repetition asks for the same one up to ten thousand times.
    private var lastIndex: (set: ScalarSet, index: Int32)?
    private let limit: Int

    private struct TooLarge: Error {}

    /// - Parameter limit: The most instructions.
    /// - Returns: nil when it would have more.
    init?(_ tree: PatternTree, limit: Int) {
        self.limit = limit
        // Checked before anything is allocated. The construction stops at the limit too.
        guard Self.size(of: tree, limit: limit) < limit else { return nil }
        do {
            try emit(tree)
            try append(.accept)
        } catch { return nil }
        (setIndexes, lastIndex) = ([:], nil)
        assert(isWellFormed)
    }

    /// Whether every target exists, and the last instruction accepts. O(instructions).
    private var isWellFormed: Bool {
        instructions.last == .accept
            && instructions.allSatisfy { instruction in
                switch instruction {
                case .scalar(let set): sets.indices.contains(Int(set))
                case .jump(let target): instructions.indices.contains(Int(target))
                case .fork(let first, let second):
                    instructions.indices.contains(Int(first)) && instructions.indices.contains(Int(second))
                case .accept: true
                }
            }
    }

    /// The number of instructions of the tree; any number above `limit` when it is more. The empty text
    /// counts as one, so that its repetition is limited too.
    private static func size(of tree: PatternTree, limit: Int) -> Int {
        func sum(_ items: [PatternTree]) -> Int {
            items.reduce(0) { min($0 + size(of: $1, limit: limit), limit + 1) }
        }
        switch tree {
        case .scalar: return 1
        case .sequence(let items): return max(1, sum(items))
        // All but the last with a fork and a jump.
        case .either(let items): return min(sum(items) + 2 * (items.count - 1), limit + 1)
        case .repeated(let item, let minimum, let maximum):
            // All factors are small: at most 10 001 each.
            let one = size(of: item, limit: limit)
            guard let maximum else { return min(one * (minimum + 1) + 2, limit + 1) }
            return min(max(1, one * minimum + (one + 1) * (maximum - minimum)), limit + 1)
        }
    }

    private mutating func emit(_ tree: PatternTree) throws(TooLarge) {
        switch tree {
        case .scalar(let set):
            try append(.scalar(set: index(of: set)))
        case .sequence(let items):
            for item in items { try emit(item) }
        case .either(let items):
            var ends: [Int] = []
            for (offset, item) in items.enumerated() {
                guard offset < items.count - 1 else {
                    try emit(item)
                    break
                }
                let fork = try reserve()
                try emit(item)
                ends.append(try reserve())
                instructions[fork] = .fork(Int32(fork + 1), here)
            }
            for end in ends { instructions[end] = .jump(here) }
        case .repeated(let item, let minimum, let maximum):
            for _ in 0..<minimum { try emit(item) }
            guard let maximum else {
                let fork = try reserve()
                try emit(item)
                try append(.jump(Int32(fork)))
                instructions[fork] = .fork(Int32(fork + 1), here)
                return
            }
            var forks: [Int] = []
            for _ in minimum..<max(minimum, maximum) {
                forks.append(try reserve())
                try emit(item)
            }
            for fork in forks { instructions[fork] = .fork(Int32(fork + 1), here) }
        }
    }

    private var here: Int32 { Int32(instructions.count) }

    private mutating func append(_ instruction: Instruction) throws(TooLarge) {
        guard instructions.count < limit else { throw TooLarge() }
        instructions.append(instruction)
    }

    private mutating func reserve() throws(TooLarge) -> Int {
        try append(.accept)
        return instructions.count - 1
    }

    private mutating func index(of set: ScalarSet) -> Int32 {
        if let lastIndex, lastIndex.set == set { return lastIndex.index }
        let index: Int32
        if let known = setIndexes[set] {
            index = known
        } else {
            index = Int32(sets.count)
            sets.append(set)
            setIndexes[set] = index
        }
        lastIndex = (set, index)
        return index
    }
}

/// Classes of characters that a pattern does not distinguish.
///
/// Always true: `starts` ascends from 0, and `classes` has the class of each range up to the next start.
struct PatternAlphabet {
    private let starts: [UInt32]
    private let classes: [UInt16]
    /// `classes` for ASCII, read directly.
    private let asciiClasses: [UInt16]
    let classCount: Int
    /// For each set a bit for each class, in words of 64.
    private let members: [UInt64]
    private let wordCount: Int

    /// - Complexity: O(intervals of all sets × log starts).
    init(_ sets: [ScalarSet]) {
        var bounds: Set<UInt32> = [0]
        for set in sets {
            for range in set.ranges {
                bounds.insert(range.lowerBound)
                bounds.insert(range.upperBound + 1)
            }
        }
        let starts = bounds.sorted()
        // For each set the classes are split into characters inside and outside of it. Only intervals inside
        // are visited: most of a thousand sets have one.
        var classes = [UInt16](repeating: 0, count: starts.count)
        /// Intervals of each class.
        var sizes = [starts.count]
        for set in sets {
            let intervals = Self.intervals(of: set, startingAt: starts)
            var insideSizes: [UInt16: Int] = [:]
            for interval in intervals.joined() { insideSizes[classes[interval], default: 0] += 1 }
            var inside: [UInt16: UInt16] = [:]
            for interval in intervals.joined() {
                let old = classes[interval]
                guard let size = insideSizes[old], size < sizes[Int(old)] else { continue }
                if let new = inside[old] {
                    classes[interval] = new
                } else {
                    let new = UInt16(sizes.count)
                    inside[old] = new
                    classes[interval] = new
                    sizes.append(size)
                }
            }
            for (old, new) in inside { sizes[Int(old)] -= sizes[Int(new)] }
        }
        let count = sizes.count
        assert(starts.first == 0, "a character before the first range has no class")
        self.starts = starts
        self.classes = classes
        classCount = count
        wordCount = (count + 63) / 64
        var members = [UInt64](repeating: 0, count: sets.count * wordCount)
        for (index, set) in sets.enumerated() {
            for interval in Self.intervals(of: set, startingAt: starts).joined() {
                let place = Int(classes[interval])
                members[index * wordCount + place / 64] |= 1 << UInt64(place % 64)
            }
        }
        self.members = members
        var interval = 0
        asciiClasses = (0..<128 as Range<UInt32>).map { scalar -> UInt16 in
            while interval + 1 < starts.count, starts[interval + 1] <= scalar { interval += 1 }
            return classes[interval]
        }
    }

    /// The intervals of a set, a range for each range of it, ascending. O(ranges × log starts).
    /// - Precondition: Each of its ranges begins at a start, and so does what follows it.
    private static func intervals(of set: ScalarSet, startingAt starts: [UInt32]) -> [Range<Int>] {
        func index(of start: UInt32) -> Int {
            var (low, high) = (0, starts.count)
            while low < high {
                let middle = (low + high) / 2
                if starts[middle] < start { low = middle + 1 } else { high = middle }
            }
            return low
        }
        return set.ranges.map { index(of: $0.lowerBound)..<index(of: $0.upperBound + 1) }
    }

    func contains(_ class: Int, in set: Int32) -> Bool {
        members[Int(set) * wordCount + `class` / 64] >> UInt64(`class` % 64) & 1 != 0
    }

    /// The class of the character that begins at `index` of valid UTF-8, which moves behind it. O(log sets).
    @inline(__always)
    func nextClass(_ bytes: Span<UInt8>, _ index: inout Int) -> Int {
        let first = bytes[index]
        index &+= 1
        guard first >= 0x80 else { return Int(asciiClasses[Int(first)]) }
        return multibyteClass(first, bytes, &index)
    }

    private func multibyteClass(_ first: UInt8, _ bytes: Span<UInt8>, _ index: inout Int) -> Int {
        var scalar = UInt32(first & (first >= 0xF0 ? 0x07 : first >= 0xE0 ? 0x0F : 0x1F))
        while index < bytes.count, bytes[index] & 0xC0 == 0x80 {
            scalar = scalar << 6 | UInt32(bytes[index] & 0x3F)
            index &+= 1
        }
        var (low, high) = (0, starts.count)
        while low < high {
            let middle = (low &+ high) / 2
            if starts[middle] <= scalar { low = middle &+ 1 } else { high = middle }
        }
        return Int(classes[low &- 1])
    }
}
