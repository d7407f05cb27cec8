import PandoBytes
import PandoRandom

@testable import PandoTree

// The client's half of compound hashes, after the mobile SDKs: `CompoundHash.fromNode` and
// `RangeMerge.applyTo`.

/// Divides a tree into ranges and hashes them, with the SDKs' state machine (`CompoundHashBuilder`).
struct CompoundHashBuilder {
    /// Called after each leaf: whether the range ends there.
    let endsRange: (Path) -> Bool
    private(set) var texts: [String] = []
    private var paths: [Path] = []
    private var current: [Key] = []
    private var lastLeaf = Path()
    private var needsComma = true
    private var text: String?

    init(_ node: Node, endsRange: @escaping (Path) -> Bool) {
        self.endsRange = endsRange
        guard !node.isEmpty else { return }
        process(node)
        if text != nil { endRange() }
    }

    var claim: CompoundHash {
        CompoundHash(paths: paths, hashes: texts.map { Text(SHA1.base64(of: Array($0.utf8).rawSpan)) } + [""])
    }

    private mutating func process(_ node: Node) {
        guard case .object(let children) = node.withoutPriority else { return process(leaf: node) }
        var priority = node.priority?.node
        for entry in children.entries {
            if let value = priority, Key(unchecked: ".priority") < entry.key {
                child(".priority", value)
                priority = nil
            }
            child(entry.key, entry.node)
        }
    }

    private mutating func child(_ key: Key, _ node: Node) {
        ensureRange()
        if needsComma { text! += "," }
        text! += "\(quoted(key.string)):("
        current.append(key)
        needsComma = false
        process(node)
        current.removeLast()
        if text != nil { text! += ")" }
        needsComma = true
    }

    private mutating func ensureRange() {
        guard text == nil else { return }
        text = "(" + current.map { quoted($0.string) + ":(" }.joined()
        needsComma = false
    }

    private mutating func process(leaf: Node) {
        ensureRange()
        lastLeaf = Path(current)
        if let priority = leaf.priority { text! += "priority:\(value(priority.node)):" }
        text! += value(leaf.withoutPriority)
        needsComma = true
        if endsRange(lastLeaf) { endRange() }
    }

    private mutating func endRange() {
        texts.append(text! + String(repeating: ")", count: current.count + 1))
        paths.append(lastLeaf)
        text = nil
    }

    private func value(_ leaf: Node) -> String {
        switch leaf {
        case .boolean(let value): return "boolean:\(value)"
        case .string(let text): return "string:" + quoted(text.string)
        default:
            let digits = String(leaf.doubleValue!.bitPattern, radix: 16)
            return "number:" + String(repeating: "0", count: 16 - digits.count) + digits
        }
    }

    private func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            if scalar == "\"" || scalar == "\\" { result += "\\" }
            result.unicodeScalars.append(scalar)
        }
        return result + "\""
    }
}

/// Applies entries as the SDKs do, with children in any order.
struct RangeMergeClient {
    private(set) var node: Node
    var generator: SeededGenerator

    init(_ node: Node, seed: Int) {
        self.node = node
        generator = SeededGenerator(seed: seed)
    }

    mutating func apply(_ merge: RangeMerge) {
        // Printed and parsed: what the export form cannot express, the client does not get.
        var bytes: [UInt8] = []
        bytes.append(json: merge.node)
        let received = (try? Node(json: bytes.rawSpan)) ?? .empty
        node = update([], node, received, merge) ?? node
    }

    /// Nil when the range does not touch the node.
    private mutating func update(_ at: [Key], _ node: Node, _ new: Node, _ merge: RangeMerge) -> Node? {
        let path = Path(at)
        let start = merge.start.map { Path.compare(path, $0) } ?? 1
        let end = merge.end.map { Path.compare(path, $0) } ?? -1
        let startIsInside = merge.start.map { path.contains($0) } ?? false
        let endIsInside = merge.end.map { path.contains($0) } ?? false
        if start > 0, end < 0, !endIsInside { return new }
        if start > 0, endIsInside, new.isLeaf { return new }
        if start > 0, end == 0 { return node.isLeaf ? .empty : nil }
        guard startIsInside || endIsInside else { return nil }
        var keys = Set(node.children.entries.map(\.key) + new.children.entries.map(\.key)).sorted()
        keys.shuffle(using: &generator)
        if node.priority != nil || new.priority != nil { keys.append(".priority") }
        var result = node
        for key in keys {
            if let child = update(at + [key], Self.child(key, of: node), Self.child(key, of: new), merge) {
                result = Self.setting(key, of: result, to: child)
            }
        }
        return result
    }

    private static func child(_ key: Key, of node: Node) -> Node {
        key == ".priority" ? node.priority?.node ?? .empty : node[key]
    }

    private static func setting(_ key: Key, of node: Node, to child: Node) -> Node {
        if key == ".priority" { return node.with(priority: Priority(child)) }
        var node = node
        node.set(child, at: Path([key]))
        return node
    }
}
