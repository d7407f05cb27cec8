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

    /// Notes a location in the tree before the write.
    fileprivate mutating func didReadAll(_ path: Path) { reads.insert(path.keys[...]) }

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
    /// Whether an ancestor of a written location has data after the write depends on its other children,
    /// where the write removes. So the parent of each removal counts as read.
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
        for path in paths where after[path].isEmpty { tracker.didReadAll(path.parent) }
        let isAllowed =
            rules.refusal(ofWritingAt: paths, after: after, in: scope, &tracker, spending: &left) == nil
        return RuleDecision(isAllowed: isAllowed, reads: tracker.reads)
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
