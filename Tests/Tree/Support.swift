import PandoBytes
import PandoRandom
import PandoTree

extension SeededGenerator {
    /// True once in `n` calls, on average.
    mutating func one(in n: Int) -> Bool { Int.random(in: 0..<n, using: &self) == 0 }

    mutating func pick<T>(_ choices: [T]) -> T { choices[Int.random(in: 0..<choices.count, using: &self)] }
}

/// The node of a JSON text.
func node(_ json: String) throws -> Node {
    try Node(json: Array(json.utf8).rawSpan)
}

/// Small random trees with few keys, so that two of them often have the same ones.
struct TreeMaker {
    var generator: SeededGenerator
    var keys: [Key] = ["a", "b", "-K", "-L", "1", "2", "10", "!x", "foo", "\"\\", "🐵", "\u{E000}"]
    var maxDepth = 3
    var maxWidth = 5
    /// One node in this many has a priority; 0 for none.
    var priorityRarity = 5

    mutating func leaf() -> Node {
        switch Int.random(in: 0..<6, using: &generator) {
        case 0: .boolean(.random(using: &generator))
        case 1: .integer(Int64.random(in: -3...3, using: &generator))
        case 2: .number(generator.pick([0.5, 1e21, -2.25, 3]))
        default: .string(generator.pick(["", "x", "y", "\"q\"", "\\", "🐵", "é"]))
        }
    }

    mutating func priority() -> Priority? {
        guard priorityRarity > 0, generator.one(in: priorityRarity) else { return nil }
        return generator.pick([.number(1), .number(2), .number(-0.5), .string("p"), .string("q")])
    }

    /// Never empty.
    mutating func tree(depth: Int = 0) -> Node {
        guard depth < maxDepth, !generator.one(in: 3) || depth == 0 else {
            return leaf().with(priority: priority())
        }
        var node = Node.empty
        for _ in 0..<Int.random(in: 1...maxWidth, using: &generator) {
            node.set(tree(depth: depth + 1), at: Path([generator.pick(keys)]))
        }
        return node.with(priority: priority())
    }

    /// A path that may or may not exist.
    mutating func path() -> Path {
        Path((0..<Int.random(in: 0...maxDepth, using: &generator)).map { _ in generator.pick(keys) })
    }

    /// `node` after a few random writes.
    mutating func changed(_ node: Node, writes: ClosedRange<Int> = 0...4) -> Node {
        var node = node
        for _ in 0..<Int.random(in: writes, using: &generator) {
            let path = path()
            switch Int.random(in: 0..<4, using: &generator) {
            case 0: node.set(.empty, at: path)
            case 1: node.set(priority: priority(), at: path)
            case 2: node.set(leaf().with(priority: priority()), at: path)
            default: node.set(tree(depth: max(1, path.count)), at: path)
            }
        }
        return node
    }
}

extension Children {
    /// Changes one child; returns what `body` returns.
    @discardableResult
    mutating func update<Result>(_ key: Key, _ body: (inout Node) -> Result) -> Result? {
        var result: Result?
        update(key, with: &result) { node, result in result = body(&node) }
        return result
    }
}
