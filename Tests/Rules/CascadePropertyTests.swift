import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoRules

/// Rules as plain values, evaluated as literally as the specification says it: every location by its whole
/// path (rules §2, §11).
private struct Model {
    var properties: [String: String] = [:]
    var children: [String: Model] = [:]

    /// The rules for each prefix of the path, the root's first, as far as there are any.
    func way(to path: [String]) -> [Model] {
        guard let key = path.first, let next = children[key] ?? children["$x"] ?? children["$y"] else {
            return [self]
        }
        return [self] + next.way(to: Array(path.dropFirst()))
    }

    func says(_ property: String) -> Bool { ["true", #""true""#].contains(properties[property]) }

    func grants(_ property: String, _ path: [String]) -> Bool { way(to: path).contains { $0.says(property) } }

    func validates(_ path: [String]) -> Bool {
        let way = way(to: path)
        guard way.count == path.count + 1, let rules = way.last else { return true }
        return rules.properties[".validate"] == nil || rules.says(".validate")
    }

    func allowsWrite(_ path: [String], _ after: Node) -> Bool {
        let ancestors = path.indices.map { Array(path[..<$0]) }
        let asked = ancestors.filter { !after.at($0).isEmpty } + after.at(path).locations.map { path + $0 }
        return grants(".write", path) && asked.allSatisfy(validates)
    }

    var json: String {
        let members =
            properties.map { (".\($0.key.dropFirst())", $0.value) } + children.map { ($0.key, $0.value.json) }
        return "{" + members.map { #""\#($0)":\#($1)"# }.joined(separator: ",") + "}"
    }

    init(_ generator: inout SeededGenerator, depth: Int, variables: [String] = ["$x", "$y"]) {
        for property in [".read", ".write", ".validate"] where generator.one(in: 3) {
            let yes = property == ".validate" || generator.one(in: 2)
            properties[property] =
                generator.one(in: 4)
                ? #""auth != null""#
                : yes != generator.one(in: 6)
                    ? generator.pick(["true", #""true""#])
                    : generator.pick(["false", #""false""#])
        }
        guard depth > 0 else { return }
        for key in ["a", "b"] where generator.one(in: 2) {
            children[key] = Model(&generator, depth: depth - 1, variables: variables)
        }
        if let variable = variables.first, generator.one(in: 2) {
            children[variable] = Model(&generator, depth: depth - 1, variables: Array(variables.dropFirst()))
        }
    }
}

@Test(arguments: 0..<300 as Range<UInt64>)
func decisionsAgreeWithModel(seed: UInt64) throws {
    var generator = SeededGenerator(seed: seed)
    let model = Model(&generator, depth: 3)
    let access = Access.loaded(try rules(model.json))
    func path() -> [String] {
        (0..<Int.random(in: 0...4, using: &generator)).map { _ in generator.pick(["a", "b", "c"]) }
    }
    func tree(_ depth: Int) -> Node {
        guard depth > 0, !generator.one(in: 3) else { return generator.one(in: 4) ? .empty : .integer(1) }
        var node = Node.empty
        for key: Key in ["a", "b", "c"] where generator.one(in: 2) {
            node.set(tree(depth - 1), at: Path([key]))
        }
        return node.with(priority: generator.one(in: 5) ? .number(1) : nil)
    }
    for _ in 0..<40 {
        let paths = (0..<Int.random(in: 1...2, using: &generator)).map { _ in path() }
        var after = tree(4)
        let keys = paths.map { Path($0.map { Key(unchecked: Text($0)) }) }
        for path in keys { after.set(tree(2), at: path) }
        let expected = paths.allSatisfy { model.allowsWrite($0, after) }
        #expect(
            access.allowsWrite(at: keys, after: after, in: scope(.anonymous)) == expected,
            "seed \(seed): \(model.json), \(keys), \(after)")
        for (path, key) in zip(paths, keys) {
            #expect(
                access.allowsRead(at: key, query: nil, in: scope(.anonymous)) == model.grants(".read", path),
                "seed \(seed): \(model.json), \(key)")
        }
    }
}
