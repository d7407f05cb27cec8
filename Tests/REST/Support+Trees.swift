import PandoBytes
import PandoRandom
import PandoTree

@testable import PandoREST

/// Small random trees in which arrays, near arrays and priorities are frequent.
struct TreeMaker {
    var generator: SeededGenerator
    private let keys: [Key] = ["0", "1", "2", "3", "4", "5", "7", "10", "01", "-1", "a", "b\"\\", "é", "🐵"]

    init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    mutating func tree(depth: Int = 0) -> Node {
        let isLeaf = depth > 0 && (depth > 3 || generator.one(in: 3))
        var node = isLeaf ? leaf() : object(depth)
        if generator.one(in: 6) {
            node = node.with(priority: generator.one(in: 2) ? .number(1.5) : .string("p\n"))
        }
        return node
    }

    private mutating func object(_ depth: Int) -> Node {
        var node = Node.empty
        let choice = generator.one(in: 2) ? keys[..<8] : keys[...]
        for _ in 0..<Int.random(in: 1...6, using: &generator) {
            node.set(tree(depth: depth + 1), at: Path([choice.randomElement(using: &generator) ?? "x"]))
        }
        return node
    }

    private mutating func leaf() -> Node {
        switch Int.random(in: 0..<5, using: &generator) {
        case 0: .boolean(.random(using: &generator))
        case 1: .integer(Int64.random(in: -3...3, using: &generator))
        case 2: .number([0.5, 1e21, -2.25].randomElement(using: &generator) ?? 0)
        case 3: .string("")
        default:
            .string(Text(String(repeating: "x\"\u{1}é", count: Int.random(in: 1...9, using: &generator))))
        }
    }
}

/// The same printing without pieces, without thought for speed, and without the code under test.
struct NaivePrinter {
    var form: JSONForm

    func text(_ node: Node) -> String {
        let value: String
        if form.isShallow, case .object(let children) = node.withoutPriority {
            value = object(children.entries.map { ($0.key.string, "true") }, 0)
        } else {
            value = print(node, 0)
        }
        return value + (form.isPretty ? "\n" : "")
    }

    private func print(_ node: Node, _ indent: Int) -> String {
        let entries = node.children.entries
        if form.hasPriorities, let priority = node.priority {
            let own = (".priority", priority.node.description)
            if entries.isEmpty { return object([(".value", node.withoutPriority.description), own], indent) }
            return object([own] + entries.map { ($0.key.string, print($0.node, indent + 1)) }, indent)
        }
        guard !entries.isEmpty else { return node.withoutPriority.description }
        let indexes = entries.compactMap { entry in
            Int(entry.key.string).flatMap { $0 >= 0 && String($0) == entry.key.string ? $0 : nil }
        }
        if form.hasArrays, indexes.count == entries.count, (indexes.max() ?? 0) < 2 * entries.count {
            let last = indexes.max() ?? 0
            let elements = (0...last).map { index in
                let child = node[Key(index: index)]
                return child.isEmpty ? "null" : print(child, indent)
            }
            return form.isPretty
                ? "[ " + elements.joined(separator: ", ") + " ]" : "[" + elements.joined(separator: ",") + "]"
        }
        return object(entries.map { ($0.key.string, print($0.node, indent + 1)) }, indent)
    }

    private func object(_ members: [(String, String)], _ indent: Int) -> String {
        let pad = form.isPretty ? "\n" + String(repeating: "  ", count: indent) : ""
        let inner = form.isPretty ? pad + "  " : ""
        let colon = form.isPretty ? " : " : ":"
        let texts = members.map { inner + Node.string(Text($0.0)).description + colon + $0.1 }
        return "{" + texts.joined(separator: ",") + pad + "}"
    }
}
