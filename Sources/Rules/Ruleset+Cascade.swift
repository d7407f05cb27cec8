import PandoTree

// Which rule decides what (security-rules.md §2).
//
// Only rules that are constants say something here. One that would have to be evaluated neither grants nor
// lets pass: an evaluation that cannot be done is an error, and an error never grants (§2.2, §7).

extension RuleExpression {
    fileprivate var holds: Bool { constant ?? false }
}

extension Ruleset {
    /// §2.2: the first `.read` on the way to the path that is true grants; what lies below the path is not
    /// looked at.
    func allowsRead(at path: Path) -> Bool {
        isGranted(at: path) { $0.read }
    }

    /// May anything at all be written at the path, whatever it is and whatever is there?
    func allowsWrite(at path: Path) -> Bool {
        guard isGranted(at: path, by: { $0.write }) else { return false }
        var allows = true
        walk(to: path) { node, level in
            allows = node.validate?.holds ?? true
            if level == path.count, node.mayRefuseBelow { allows = false }
            return allows
        }
        return allows
    }

    /// §2.3, §2.4: may what lies at `path` in `after` be put there by a write that leaves the database as
    /// `after`?
    func allowsWrite(at path: Path, after: Node) -> Bool {
        isGranted(at: path) { $0.write } && isValid(at: path, after: after)
    }

    private func isGranted(at path: Path, by rule: (RuleNode) -> RuleExpression?) -> Bool {
        var isGranted = false
        walk(to: path) { node, _ in
            isGranted = rule(node)?.holds ?? false
            return !isGranted
        }
        return isGranted
    }

    /// Every `.validate` that applies: from the root to the path, and below it wherever the write carries
    /// data. Nodes that the write leaves without a value are not asked, nor is anything beside the path
    /// (§2.3).
    private func isValid(at path: Path, after: Node) -> Bool {
        var isValid = true
        var data = after
        walk(to: path) { node, level in
            if level > 0 { data = data[path[level - 1]] }
            // Nothing is left here, so nothing is left below.
            guard !data.isEmpty else { return false }
            isValid = node.validate?.holds ?? true
            if isValid, level == path.count { isValid = Self.isValid(below: node, data) }
            return isValid
        }
        return isValid
    }

    /// Recursion is as deep as the rules. O(data that rules look at).
    private static func isValid(below rules: RuleNode, _ data: Node) -> Bool {
        guard rules.mayRefuseBelow else { return true }
        func isValid(_ rules: RuleNode, _ child: Node) -> Bool {
            rules.validate?.holds ?? true && Self.isValid(below: rules, child)
        }
        guard rules.wildcard?.node.mayRefuse ?? false else {
            // A long list with rules for a few of its children is not walked.
            return rules.children.allSatisfy { key, rules in
                let child = data[key]
                return child.isEmpty || isValid(rules, child)
            }
        }
        return data.children.forEach { key, child in rules[key].map { isValid($0, child) } ?? true }
    }
}
