import PandoTree

/// What the rules decide about a write, and what else than the written data they have read: while that is
/// unchanged, they decide the same.
package struct RuleDecision: Sendable {
    package let isAllowed: Bool
    package let reads: ReadLocations

    /// A decision that was composed of several.
    package init(isAllowed: Bool, reads: ReadLocations) {
        self.isAllowed = isAllowed
        self.reads = reads
    }
}

/// Notes the locations that rules read, other than what the write brings.
struct ReadTracker: RuleObserver {
    static var isObserving: Bool { false }
    static var isTracking: Bool { true }

    private let written: ReadLocations
    private(set) var reads: ReadLocations

    /// - Parameter reads: What is noted already, with its limit.
    init(written paths: [Path], _ reads: ReadLocations) {
        var written = ReadLocations(limit: .max)
        for path in paths { written.insert(path.keys[...]) }
        self.written = written
        self.reads = reads
    }

    mutating func didRead(_ keys: ArraySlice<Key>, _ part: ReadLocations.Part, isAfter: Bool) {
        guard isAfter else { return reads.insert(keys, part) }
        switch written.part(of: keys) {
        case .all?: break
        // Whether there is data above a written location after the write may depend on all that is there.
        case .existence?, .nothing?: reads.insert(keys)
        case nil: reads.insert(keys, part)
        }
    }

    /// A removal may leave several locations on the way to it without data. That the first of them has none
    /// depends on all that is there. (That those above it have some does not matter: without data, fewer
    /// rules would apply.)
    mutating func didFindNoData(_ keys: ArraySlice<Key>) {
        if written.part(of: keys) != .all { reads.insert(keys) }
    }

    /// A `.validate` has refused a path. If that is a removal, the rule applies only while its location has
    /// data after the write. It does as long as nothing changes in the deepest location of the path with
    /// data.
    fileprivate mutating func didRefuse(_ path: Path, after: Node) {
        guard after[path].isEmpty else { return }
        var (node, count) = (after, 0)
        while !node.isEmpty, count < path.count {
            node = node[path[count]]
            count += 1
        }
        reads.insert(path.keys[..<max(0, count - 1)])
    }

    func willWalk(from level: Int) {}
    func willEvaluate(_ rule: RuleExpression, _ kind: RuleKind) {}
    func didEvaluate(
        _ rule: RuleExpression, _ kind: RuleKind, _ outcome: Bool?, _ error: RuleError?,
        at keys: ArraySlice<Key>
    ) {}
    func operand(_ instruction: Int32, _ outcome: Bool?) {}
    func value(_ instruction: Int32, _ value: RuleValue) {}
}

extension Access {
    /// Whether this write is permitted, as ``allowsWrite(at:after:in:)`` finds out, for a caller that does it
    /// later: with what the decision depends on.
    ///
    /// Which `.validate` rules apply above a removal depends on which locations there have data after the
    /// write, and so on other children of them, which count as read.
    /// - Parameter reads: What the written data itself depends on, which is noted with the rest. Its limit is
    ///   that of the result.
    /// - Complexity: As of ``allowsWrite(at:after:in:)``.
    package func decision(
        ofWritingAt paths: [Path], after: Node, in scope: RuleScope,
        noting reads: ReadLocations = ReadLocations()
    ) -> RuleDecision {
        var left = RulesLimits.requestStepCount
        return decision(ofWritingAt: paths, after: after, in: scope, noting: reads, spending: &left)
    }

    /// The same with a limit of steps, as ``allowsWrite(at:after:in:spending:)``.
    package func decision(
        ofWritingAt paths: [Path], after: Node, in scope: RuleScope,
        noting reads: ReadLocations = ReadLocations(), spending left: inout Int
    ) -> RuleDecision {
        guard case .loaded(let rules) = self, !scope.credential.isAdmin else {
            return RuleDecision(
                isAllowed: decisionWithoutRules(for: scope.credential) ?? false, reads: reads)
        }
        var tracker = ReadTracker(written: paths, reads)
        let refusal = rules.refusal(
            ofWritingAt: paths, after: after, in: scope, &tracker, spending: &left)
        if let refusal, refusal.isGranted { tracker.didRefuse(refusal.path, after: after) }
        return RuleDecision(isAllowed: refusal == nil, reads: tracker.reads)
    }

    /// Whether both are the same rules, or the same lack of them. O(1).
    package func isSame(as other: Access) -> Bool {
        switch (self, other) {
        case (.locked, .locked), (.open, .open): true
        case (.loaded(let left), .loaded(let right)): left.root === right.root
        default: false
        }
    }
}
