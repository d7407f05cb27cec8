import PandoTree

/// What the rules decide about a write, and what else than the written data they have read: while that is
/// unchanged, they decide the same.
package struct RuleDecision: Sendable {
    package let isAllowed: Bool
    /// Locations whose data was read, none at or below a written one. Nil where there are too many.
    package let reads: [Path]?

    /// A decision that was composed of several.
    package init(isAllowed: Bool, reads: [Path]?) {
        self.isAllowed = isAllowed
        self.reads = reads
    }
}

/// Notes the locations outside of a write that rules read.
struct ReadTracker: RuleObserver {
    static var isObserving: Bool { false }
    static var isTracking: Bool { true }

    /// Locations that are noted. Rules name a few; computed names may give more.
    private static let limit = 256

    private let written: Set<Path>
    private var noted: Set<Path> = []
    private var isComplete = true

    init(written: [Path]) { self.written = Set(written) }

    var reads: [Path]? { isComplete ? Array(noted) : nil }

    mutating func didRead(_ keys: ArraySlice<Key>) {
        guard isComplete else { return }
        for count in 0...keys.count where written.contains(Path(Array(keys.prefix(count)))) { return }
        noted.insert(Path(Array(keys)))
        isComplete = noted.count <= Self.limit
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
    /// Whether an ancestor of a written location has data after the write depends on its other children,
    /// where the write removes. So the parent of each removal counts as read.
    /// - Complexity: As of ``allowsWrite(at:after:in:)``.
    package func decision(ofWritingAt paths: [Path], after: Node, in scope: RuleScope) -> RuleDecision {
        var left = RulesLimits.requestStepCount
        return decision(ofWritingAt: paths, after: after, in: scope, spending: &left)
    }

    /// The same with a limit of steps, as ``allowsWrite(at:after:in:spending:)``.
    package func decision(
        ofWritingAt paths: [Path], after: Node, in scope: RuleScope, spending left: inout Int
    ) -> RuleDecision {
        guard case .loaded(let rules) = self, !scope.credential.isAdmin else {
            return RuleDecision(
                isAllowed: decisionWithoutRules(for: scope.credential) ?? false, reads: [])
        }
        var tracker = ReadTracker(written: paths)
        for path in paths where after[path].isEmpty { tracker.didRead(path.parent.keys[...]) }
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
