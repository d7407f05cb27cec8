import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoRules

/// Rules of a fixed shape with expressions at each node, evaluated as literally as possible: each path by
/// itself, each location by its whole path, each expression by walking its text (rules §2, §11).
private struct Model {
    struct Place {
        var write: Expression?
        var validate: Expression?
    }

    /// `/`, `/$x`, `/$x/$k`, `/$x/$k/a`
    var places: [Place] = []
    var before: Node
    var after: Node
    var auth: Claim

    func place(of location: [String]) -> Place? {
        if location.count < 3 { return places[location.count] }
        return location.count == 3 && location[2] == "a" ? places[3] : nil
    }

    func holds(_ expression: Expression, _ location: [String]) -> Bool {
        var variables: [String: String] = [:]
        for (name, key) in zip(["$x", "$k"], location) { variables[name] = key }
        return NaiveEvaluator(
            auth: auth, now: 1000, before: before, after: after, location: location, variables: variables,
            isRead: false
        ).holds(expression)
    }

    func allowsWrite(_ path: [String]) -> Bool {
        let way = (0...path.count).map { Array(path[..<$0]) }
        let isGranted = way.contains { location in
            place(of: location)?.write.map { holds($0, location) } ?? false
        }
        let carried = after.at(path).locations.map { path + $0 }
        let asked = way.dropLast().filter { !after.at($0).isEmpty } + carried
        return isGranted
            && asked.allSatisfy { location in
                place(of: location)?.validate.map { holds($0, location) } ?? true
            }
    }
}

@Test(arguments: 0..<16 as Range<UInt64>)
func writesOfManyPathsAgreeWithModel(seed: UInt64) throws {
    var writer = ExpressionWriter(generator: SeededGenerator(seed: seed))
    var (allowed, refused, kept, lost) = (0, 0, 0, 0)
    for _ in 0..<25 {
        var model = Model(before: .empty, after: .empty, auth: .null)
        var texts: [[String?]] = []
        for names in [[], ["$x"], ["$x", "$k"], ["$x", "$k"]] as [[Text]] {
            func expression() throws -> (String, Expression)? {
                guard !writer.generator.one(in: 4) else { return nil }
                for _ in 0..<50 {
                    let text = writer.generator.pick([
                        "newData.parent().hasChildren()", "!data.parent().child('a').exists()",
                        "newData.child('a').exists() || data.exists()",
                        "newData.parent().child('b').val() != 5",
                        "data.val() != newData.val() || newData.parent().parent().child('k1').exists()",
                        "newData.hasChildren() || newData.val() != 'a'", "auth != null", writer.boolean(3),
                    ])
                    var (quoted, budget) = ([UInt8](), ExpressionBudget())
                    quoted.append(json: Text(text))
                    let json = String(decoding: quoted, as: UTF8.self)
                    let inner = names.reversed().reduce(#"{".validate":\#(json)}"#) { #"{"\#($1)":\#($0)}"# }
                    guard (try? rules(inner)) != nil else { continue }
                    return (
                        json, try ExpressionParser.parse(Text(text), variables: names, budget: &budget).0
                    )
                }
                return nil
            }
            let (write, validate) = (try expression(), try expression())
            model.places.append(Model.Place(write: write?.1, validate: validate?.1))
            texts.append([write.map { #"".write":\#($0.0)"# }, validate.map { #"".validate":\#($0.0)"# }])
        }
        var document = ""
        for (name, members) in zip(["", "$x", "$k", "a"], texts).reversed() {
            let all = members.compactMap { $0 } + (document.isEmpty ? [] : [document])
            let node = "{" + all.joined(separator: ",")
            document = name.isEmpty ? node + "}" : #""\#(name)":\#(node)}"#
        }
        let loaded = try rules(document)
        let access = Access.loaded(loaded)
        for _ in 0..<12 {
            let auth: Text? = writer.generator.pick([nil, #"{"uid":"u1"}"#, #"{"uid":"/"}"#])
            model.auth = auth.map { AuthVariable(json: $0).root } ?? .null
            model.before = writer.tree(4)
            let isOther = writer.generator.one(in: 3)
            model.after = isOther ? writer.tree(4) : model.before
            var paths: [[String]] = []
            for _ in 0..<Int.random(in: 1...6, using: &writer.generator) {
                paths.append(
                    (0..<Int.random(in: 0...4, using: &writer.generator)).map { _ in
                        writer.generator.pick(["a", "b", "k1", "u1"])
                    })
            }
            let keys = paths.map { Path($0.map { Key(unchecked: Text($0)) }) }
            let values = keys.map { _ in writer.generator.one(in: 3) ? Node.empty : writer.tree(2) }
            for (path, value) in zip(keys, values) { model.after.set(value, at: path) }
            let scope = RuleScope(
                credential: Credential(authVariable: auth), milliseconds: 1000, root: model.before)
            let expected = paths.allSatisfy(model.allowsWrite)
            let context = "seed \(seed): \(document), \(keys), \(model.before) to \(model.after)"
            #expect(access.allowsWrite(at: keys, after: model.after, in: scope) == expected, "\(context)")
            let denial = access.explainWrite(at: keys, after: model.after, in: scope)
            #expect((denial == nil) == expected, "\(context)")
            if let denial {
                // The explanation is true of the path that it names.
                #expect(!model.allowsWrite(denial.path.keys.map(\.string)), "\(context)")
            }
            let coverage = RuleCoverage(of: loaded)
            let recorded = access.allowsWrite(at: keys, after: model.after, in: scope, recording: coverage)
            #expect(recorded == expected, "\(context)")
            if expected { allowed += 1 } else { refused += 1 }

            // To note what rules read changes neither the result nor the steps that it takes.
            var (left, trackedLeft) = (1 << 26, 1 << 26)
            _ = access.allowsWrite(at: keys, after: model.after, in: scope, spending: &left)
            let decision = access.decision(
                ofWritingAt: keys, after: model.after, in: scope, spending: &trackedLeft)
            #expect(decision.isAllowed == expected && trackedLeft == left, "\(context)")
            if isOther { continue }
            // While nothing of that has changed, the result is the same.
            var changed = scope
            for _ in 0..<Int.random(in: 1...2, using: &writer.generator) {
                let path = (0..<Int.random(in: 1...3, using: &writer.generator)).map { _ in
                    Key(unchecked: writer.generator.pick(["a", "b", "c", "k1", "u1"]))
                }
                changed.root.set(writer.generator.one(in: 2) ? .empty : writer.tree(1), at: Path(path))
            }
            guard decision.reads.areUnchanged(from: model.before, to: changed.root) else {
                lost += 1
                continue
            }
            kept += 1
            var after = changed.root
            for (path, value) in zip(keys, values) { after.set(value, at: path) }
            #expect(
                access.allowsWrite(at: keys, after: after, in: changed) == expected,
                "\(context), over \(changed.root)")
        }
    }
    #expect(allowed > 10 && refused > 10, "\(allowed) allowed, \(refused) refused")
    #expect(kept > 10 && lost > 10, "\(kept) decisions still hold, \(lost) do not")
}
