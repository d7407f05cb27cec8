import PandoRules
import PandoTree

/// What is to be done before a write is executed.
package final class WritePreparation: Sendable {
    /// An index that data needs.
    struct Build: Sendable {
        let path: Path
        let order: Index
        /// The data that is written; of a merge the data that is there.
        let node: Node
        /// Its index, where that is known.
        var index: KeptIndex?
    }

    let writes: [Write]
    /// The base of a merge of many paths.
    let mergeBase: Path?
    let credential: Credential
    let time: Int64
    /// The tree.
    let root: Node
    let access: Access
    let builds: [Build]
    /// Bytes that the replaced data may have, about; nil for any number.
    let replacedByteLimit: Int?

    init(
        _ writes: [Write], replacing replacedByteLimit: Int?, mergeBase: Path?, _ credential: Credential,
        _ time: Int64, _ root: Node, _ access: Access, _ builds: [Build]
    ) {
        self.writes = writes
        self.replacedByteLimit = replacedByteLimit
        self.mergeBase = mergeBase
        self.credential = credential
        self.time = time
        self.root = root
        self.access = access
        self.builds = builds
    }

    /// Does it. O(size of the writes), and O(n log n) for an index.
    package func perform() -> PreparedWrite {
        let merge = mergeBase.flatMap { PreparedMerge(writes, base: $0, in: root, at: time) }
        var verdict: WriteVerdict?
        if access.decisionWithoutRules(for: credential) == nil {
            verdict = access.verdict(
                ofWritingAt: writes.map(\.target.path),
                after: root.applying(merge?.joined.changes ?? root.changes(of: writes, at: time)),
                in: RuleScope(credential: credential, milliseconds: time, root: root))
        }
        return PreparedWrite(self, verdict, merge, builds.compactMap { index(of: $0, merge) })
    }

    private func index(of build: Build, _ merge: PreparedMerge?) -> PreparedIndex? {
        guard mergeBase != nil else {
            let index = KeptIndex(ordering: build.node.children, by: build.order)
            return PreparedIndex(path: build.path, node: build.node, index: index)
        }
        guard let merge, merge.location == build.path else { return nil }
        let index =
            build.index?.following(build.node, to: merge.new, atMost: .max)
            ?? KeptIndex(ordering: merge.new.children, by: build.order)
        return PreparedIndex(path: build.path, node: merge.new, index: index)
    }
}

/// The result of a ``WritePreparation``.
package final class PreparedWrite: Sendable {
    let preparation: WritePreparation
    let verdict: WriteVerdict?
    /// A merge of many paths, done.
    let merge: PreparedMerge?
    let indexes: [PreparedIndex]

    init(
        _ preparation: WritePreparation, _ verdict: WriteVerdict?, _ merge: PreparedMerge?,
        _ indexes: [PreparedIndex]
    ) {
        self.preparation = preparation
        self.verdict = verdict
        self.merge = merge
        self.indexes = indexes
        replacesTooMuch = preparation.replacedByteLimit.map { limit in
            var left = limit
            return preparation.writes.contains {
                preparation.root.value(at: $0.target.fullPath).weigh(&left)
            }
        }
    }

    /// What the log needs of a merge of many paths, printed.
    package var printedRecord: PrintedNodes? {
        merge.flatMap { $0.joined.changes.isEmpty ? nil : PrintedNodes(record: $0.record) }
    }

    /// Whether the replaced data had more bytes than it may have; nil where that was not asked. It may have changed a
    /// little since.
    package let replacesTooMuch: Bool?

    /// What the rules decide; nil where they were not asked.
    var isAllowed: Bool? { verdict?.isAllowed }

    /// `now` for the write, and its timestamp: milliseconds since 1970.
    package var time: Int64 { preparation.time }

    /// Whether the rules deny it; false where they were not asked.
    package var isDenied: Bool { verdict.map { !$0.isAllowed } ?? false }

    /// The decision of the rules about a write; nil where it is another write, or they were not asked.
    func decision(about paths: [Path], as credential: Credential) -> Bool? {
        guard let verdict, credential == preparation.credential, paths.count == preparation.writes.count,
            zip(paths, preparation.writes).allSatisfy({ $0 == $1.target.path })
        else { return nil }
        return verdict.isAllowed
    }
}
