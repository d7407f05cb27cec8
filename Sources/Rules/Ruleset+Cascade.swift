import PandoTree

// Which rules decide (rules §2, §11).

/// Why a write is denied: the first of its paths, in order, that may not be written.
struct RuleRefusal {
    let path: Path
    /// A `.write` rule granted it, but a `.validate` rule is not true.
    let isGranted: Bool
}

/// Evaluates the rules of one ruleset for one request.
struct RuleCascade<Observer: RuleObserver> {
    private let rules: Ruleset
    private(set) var evaluator: Evaluator<Observer>

    /// - Parameter work: The steps of all rules together.
    init(
        _ rules: Ruleset, _ scene: EvaluationContext, _ observer: Observer,
        work: EvaluationBudget = EvaluationBudget()
    ) {
        self.rules = rules
        evaluator = Evaluator(scene: scene, observer: observer, work: work)
    }

    /// The first path that may not be written; nil when all may.
    ///
    /// The input of a rule is the location of its node and the trees before and after, which are the same for
    /// all paths of a write. So its result is the same for each path below that location. Since the paths are
    /// in order, each rule is evaluated only once: the ancestors that a path shares with the path before are
    /// skipped.
    ///
    /// - Parameter paths: In order, so that the paths below one follow right behind it.
    /// - Complexity: O(keys of all paths + evaluated rules).
    mutating func refusal(of paths: [Path]) -> RuleRefusal? {
        assert(zip(paths, paths.dropFirst()).allSatisfy { $0 <= $1 })
        /// The level of the rule that granted the path before.
        var grantedLevel = 0
        /// The level of that path, or one above it. Everything there is valid.
        var validLevel = 0
        for (index, path) in paths.enumerated() {
            /// The rules down to this level were evaluated.
            let shared = index == 0 ? -1 : paths[index - 1].sharedKeyCount(path)
            evaluator.observer.willWalk(from: shared + 1)
            evaluator.scene.start(to: path)
            evaluator.writtenLevel = path.count
            if grantedLevel > shared {
                guard let level = grantingLevel(.write, from: shared + 1) else {
                    return RuleRefusal(path: path, isGranted: false)
                }
                grantedLevel = level
            }
            if validLevel > shared {
                guard isValid(from: shared + 1), !evaluator.work.isUsedUp else {
                    return RuleRefusal(path: path, isGranted: true)
                }
                validLevel = path.count
            }
        }
        return nil
    }

    /// The first `.read` or `.write` rule between the root and the path that is true (§2.2). Rules below the
    /// path do not count. A rule that is false or fails does not grant, and denies nothing.
    /// - Parameter first: The rules above this level were evaluated, and do not grant.
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
            guard level < count, let next = node[evaluator.scene.keys[level]], mayLookUp() else { return nil }
            evaluator.scene.descend()
            node = next
        }
    }

    /// Whether every `.validate` rule that applies is true: from the root to the path, and below it wherever
    /// there is data after the write. Rules of nodes without data after the write, and rules beside the path,
    /// do not apply (§2.3).
    /// - Parameter first: The rules above this level were evaluated, and are true.
    private mutating func isValid(from first: Int) -> Bool {
        evaluator.scene.restart()
        let count = evaluator.scene.keys.count
        var node = rules.root
        while true {
            // There is no data here, so there is none below.
            guard !evaluator.scene.here.isEmpty else {
                if Observer.isTracking {
                    evaluator.observer.didFindNoData(evaluator.scene.keys[..<evaluator.scene.level])
                }
                return true
            }
            let level = evaluator.scene.level
            if level >= first, let rule = node.validate, !evaluator.holds(rule, .validate) { return false }
            guard level < count else { return isValid(below: node) }
            guard let next = node[evaluator.scene.keys[level]] else { return true }
            guard mayLookUp() else { return false }
            evaluator.scene.descend()
            node = next
        }
    }

    /// Recursion as deep as the rules. O(data that rules read).
    private mutating func isValid(below rules: RuleNode) -> Bool {
        guard Observer.isObserving ? rules.hasValidateBelow : rules.mayRefuseBelow else { return true }
        let parent = evaluator.scene.here
        guard let wildcard = rules.wildcard?.node,
            Observer.isObserving ? wildcard.hasValidate : wildcard.mayRefuse
        else {
            let children = parent.children
            // Either only a few children have rules, or only a few of those with rules are there: the others
            // are not visited.
            guard rules.childrenInOrder.count > children.count else {
                for (key, rules) in rules.childrenInOrder {
                    guard mayLookUp() else { return false }
                    let child = parent[key]
                    if !child.isEmpty, !isValid(rules, key, child, in: parent) { return false }
                }
                return true
            }
            return children.forEach { key, child in
                guard mayLookUp() else { return false }
                return rules.children[key].map { isValid($0, key, child, in: parent) } ?? true
            }
        }
        return parent.children.forEach { key, child in
            guard mayLookUp() else { return false }
            return rules[key].map { isValid($0, key, child, in: parent) } ?? true
        }
    }

    /// Spends the steps of a lookup, or of a child that is visited.
    /// - Returns: Whether the walk goes on. Without steps it ends; for observers it goes on to the next rule,
    ///   which fails for that reason.
    @inline(__always)
    private mutating func mayLookUp() -> Bool {
        evaluator.work.spend(EvaluationBudget.perKey) || Observer.isObserving
    }

    private mutating func isValid(_ rules: RuleNode, _ key: Key, _ child: Node, in parent: Node) -> Bool {
        evaluator.scene.enter(key, child)
        defer { evaluator.scene.leave(parent) }
        if let rule = rules.validate, !evaluator.holds(rule, .validate) { return false }
        return isValid(below: rules)
    }
}

extension Ruleset {
    /// Whether the path may be read. The observer gets the evaluations.
    func allowsRead<Observer: RuleObserver>(
        at path: Path, _ query: Query?, in scope: RuleScope, _ observer: inout Observer
    ) -> Bool {
        var left = RulesLimits.requestStepCount
        return allowsRead(at: path, query, in: scope, &observer, spending: &left)
    }

    /// The same with a limit of steps.
    /// - Parameter left: The steps that there are; what is left of them afterwards, negative where they did
    ///   not suffice.
    func allowsRead<Observer: RuleObserver>(
        at path: Path, _ query: Query?, in scope: RuleScope, _ observer: inout Observer,
        spending left: inout Int
    ) -> Bool {
        var cascade = RuleCascade(
            self, EvaluationContext(reading: path, query, in: scope), observer,
            work: EvaluationBudget(stepCount: left))
        defer {
            observer = cascade.evaluator.observer
            left = cascade.evaluator.work.remaining
        }
        return cascade.grantingLevel(.read) != nil && !cascade.evaluator.work.isUsedUp
    }

    /// Why a write of these paths, after which the tree is `after`, is denied (§2.3, §2.4); nil when it is
    /// permitted.
    func refusal<Observer: RuleObserver>(
        ofWritingAt paths: [Path], after: Node, in scope: RuleScope, _ observer: inout Observer
    ) -> RuleRefusal? {
        var left = RulesLimits.requestStepCount
        return refusal(ofWritingAt: paths, after: after, in: scope, &observer, spending: &left)
    }

    /// The same with a limit of steps.
    /// - Parameter left: The steps that there are; what is left of them afterwards, negative where they did
    ///   not suffice.
    func refusal<Observer: RuleObserver>(
        ofWritingAt paths: [Path], after: Node, in scope: RuleScope, _ observer: inout Observer,
        spending left: inout Int
    ) -> RuleRefusal? {
        var cascade = RuleCascade(
            self, EvaluationContext(writing: after, in: scope), observer,
            work: EvaluationBudget(stepCount: left))
        defer {
            observer = cascade.evaluator.observer
            left = cascade.evaluator.work.remaining
        }
        return cascade.refusal(of: paths.inOrder)
    }
}

extension [Path] {
    /// The paths in order. O(keys) when they are sorted, as most are.
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
    /// The number of keys that both paths have in common from the root on.
    fileprivate func sharedKeyCount(_ other: Path) -> Int {
        let limit = Swift.min(count, other.count)
        var shared = 0
        while shared < limit, keys[shared] == other.keys[shared] { shared &+= 1 }
        return shared
    }
}
