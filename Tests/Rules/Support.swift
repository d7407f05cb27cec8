import PandoBytes
import PandoRandom
import PandoTree

@testable import PandoRules

extension SeededGenerator {
    /// True once in `n` calls, on average.
    mutating func one(in n: Int) -> Bool { Int.random(in: 0..<n, using: &self) == 0 }

    mutating func pick<T>(_ choices: [T]) -> T { choices[Int.random(in: 0..<choices.count, using: &self)] }
}

extension Node {
    /// The node at a path of the models, which is plain keys.
    func at(_ path: [String]) -> Node { self[Path(path.map { Key(unchecked: Text($0)) })] }

    /// The path of everything in the node, itself included; nothing when it is empty.
    var locations: [[String]] {
        isEmpty
            ? []
            : [[]]
                + children.entries.flatMap { entry in entry.node.locations.map { [entry.key.string] + $0 } }
    }
}

/// Loads a whole document.
func load(_ document: String) throws(InvalidRules) -> Ruleset {
    try Ruleset(loading: Array(document.utf8))
}

/// Loads what stands inside `rules`.
func rules(_ node: String) throws(InvalidRules) -> Ruleset {
    try load(#"{"rules":\#(node)}"#)
}

/// The error of an upload of the document; empty when it is accepted.
func problems(_ document: String) -> [String] {
    problems(Array(document.utf8))
}

func problems(_ document: [UInt8]) -> [String] {
    do {
        _ = try Ruleset(loading: document)
        return []
    } catch {
        return error.problems.map(\.description)
    }
}

/// The node that a JSON text stands for.
func data(_ json: String) throws -> Node {
    try Node(json: Array(json.utf8).rawSpan)
}

extension RuleNode {
    /// The rules of the node without their spelling: equal rules have equal outlines.
    var outline: String {
        var parts: [String] = []
        if let read { parts.append("read=\(read.outline)") }
        if let write { parts.append("write=\(write.outline)") }
        if let validate { parts.append("validate=\(validate.outline)") }
        if !indexes.isEmpty { parts.append("index=\(indexes.map { "\($0)" }.sorted())") }
        parts += children.sorted { $0.key < $1.key }.map { "\($0.key.string):\($0.value.outline)" }
        if let wildcard { parts.append("\(wildcard.name):\(wildcard.node.outline)") }
        return "{\(parts.joined(separator: " "))}"
    }
}

extension RuleExpression {
    fileprivate var outline: String { "<\(text)>\(constant.map { $0 ? "+" : "-" } ?? "")" }
}

/// What a request sees.
func scope(_ credential: Credential, root: Node = .empty, milliseconds: Int64 = 1_760_000_000_000)
    -> RuleScope
{
    RuleScope(credential: credential, milliseconds: milliseconds, root: root)
}
