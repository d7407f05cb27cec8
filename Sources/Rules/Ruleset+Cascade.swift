import PandoTree

// Which rule decides what (rules §2, §11).

/// Why a write is refused: the first of its paths, in their order, that may not be written.
struct WriteRefusal {
    let path: Path
    /// A `.write` granted it, but a `.validate` is not true.
    let isGranted: Bool
}

/// Asks the rules of one ruleset on behalf of one request.
struct RuleCascade<Observer: RuleObserver> {
    private let rules: Ruleset
    private(set) var evaluator: Evaluator<Observer>

    /// - Parameter work: What all rules together may cost.
    init(
        _ rules: Ruleset, _ scene: EvaluationContext, _ observer: Observer,
        work: EvaluationBudget = EvaluationBudget()
    ) {
        self.rules = rules
        evaluator = Evaluator(scene: scene, observer: observer, work: work)
    }

    /// A rule sees the location of its node and the trees before and after, and these are the same for all
    /// paths of a write: so it says the same for each path below that location. Paths in order share their
    /// ancestors with the path before, and each rule is asked once.
    ///
    /// - Parameter paths: In order; each with the paths below it, if there are any, right behind it.
    /// - Complexity: O(keys of all paths + rules asked).
    mutating func refusal(of paths: [Path]) -> WriteRefusal? {
        /// The level of the rule that granted the path before.
        var grantedLevel = 0
        /// The level of that path, or one above it: all that lies there has been found valid.
        var validLevel = 0
        for (index, path) in paths.enumerated() {
            /// Rules down to this level have been asked.
            let shared = index == 0 ? -1 : paths[index - 1].sharedKeyCount(path)
            evaluator.observer.willWalk(from: shared + 1)
            evaluator.scene.start(to: path)
            if grantedLevel > shared {
                guard let level = grantingLevel(.write, from: shared + 1) else {
                    return WriteRefusal(path: path, isGranted: false)
                }
                grantedLevel = level
            }
            if validLevel > shared {
                guard isValid(from: shared + 1) else { return WriteRefusal(path: path, isGranted: true) }
                validLevel = path.count
            }
        }
        return nil
    }

    /// §2.2: the first `.read` or `.write` on the way to the path that is true grants; what lies below the
    /// path is not looked at. One that is false or fails does not grant, and forbids nothing.
    /// - Parameter first: Rules above this level have been asked, and do not grant.
    /// - Returns: The level of the rule that grants.
    mutating func grantingLevel(_ kind: RuleKind, from first: Int = 0) -> Int? {
        evaluator.scene.restart()
        let count = evaluator.scene.keys.count
        var node = rules.root
        while true {
            let level = evaluator.scene.level
            if level >= first, let rule = kind == .read ? node.read : node.write,
                evaluator.holds(rule, kind)
            {
                return level
            }
            guard level < count, let next = node[evaluator.scene.keys[level]] else { return nil }
            evaluator.scene.descend()
            node = next
        }
    }

    /// Every `.validate` that applies: from the root to the path, and below it wherever the write carries
    /// data. Nodes that the write leaves without a value are not asked, nor is anything beside the path
    /// (§2.3).
    /// - Parameter first: Rules above this level have been asked, and are true.
    private mutating func isValid(from first: Int) -> Bool {
        evaluator.scene.restart()
        let count = evaluator.scene.keys.count
        var node = rules.root
        while true {
            // Nothing is left here, so nothing is left below.
            guard !evaluator.scene.here.isEmpty else { return true }
            let level = evaluator.scene.level
            if level >= first, let rule = node.validate, !evaluator.holds(rule, .validate) { return false }
            guard level < count else { return isValid(below: node) }
            guard let next = node[evaluator.scene.keys[level]] else { return true }
            evaluator.scene.descend()
            node = next
        }
    }

    /// Recursion is as deep as the rules. O(data that rules look at).
    private mutating func isValid(below rules: RuleNode) -> Bool {
        guard Observer.isObserving ? rules.hasValidateBelow : rules.mayRefuseBelow else { return true }
        let parent = evaluator.scene.here
        guard let wildcard = rules.wildcard?.node,
            Observer.isObserving ? wildcard.hasValidate : wildcard.mayRefuse
        else {
            // A long list with rules for a few of its children is not walked.
            for (key, rules) in rules.childrenInOrder {
                let child = parent[key]
                if !child.isEmpty, !isValid(rules, key, child, in: parent) { return false }
            }
            return true
        }
        return parent.children.forEach { key, child in
            rules[key].map { isValid($0, key, child, in: parent) } ?? true
        }
    }

    private mutating func isValid(_ rules: RuleNode, _ key: Key, _ child: Node, in parent: Node) -> Bool {
        evaluator.scene.enter(key, child)
        defer { evaluator.scene.leave(parent) }
        if let rule = rules.validate, !evaluator.holds(rule, .validate) { return false }
        return isValid(below: rules)
    }
}

extension Ruleset {
    /// May the path be read, as whoever looks on sees it too?
    func allowsRead<Observer: RuleObserver>(
        at path: Path, _ query: Query?, in scope: RuleScope, _ observer: inout Observer
    ) -> Bool {
        var cascade = RuleCascade(self, EvaluationContext(reading: path, query, in: scope), observer)
        defer { observer = cascade.evaluator.observer }
        return cascade.grantingLevel(.read) != nil
    }

    /// §2.3, §2.4: may what lies at the paths in `after` be put there by a write that leaves the database as
    /// `after`?
    /// - Returns: nil when it may.
    func refusal<Observer: RuleObserver>(
        ofWritingAt paths: [Path], after: Node, in scope: RuleScope, _ observer: inout Observer
    ) -> WriteRefusal? {
        var cascade = RuleCascade(self, EvaluationContext(writing: after, in: scope), observer)
        defer { observer = cascade.evaluator.observer }
        return cascade.refusal(of: paths.inOrder)
    }
}

extension [Path] {
    /// Sorted, which most are. O(keys) when they are.
    fileprivate var inOrder: [Path] {
        var index = 1
        while index < count {
            guard self[index &- 1] <= self[index] else { return sorted() }
            index &+= 1
        }
        return self
    }
}

extension Path {
    /// How many keys from the root on are the same in both.
    fileprivate func sharedKeyCount(_ other: Path) -> Int {
        let limit = Swift.min(count, other.count)
        var shared = 0
        while shared < limit, keys[shared] == other.keys[shared] { shared &+= 1 }
        return shared
    }
}
