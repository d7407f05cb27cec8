import PandoEngine
import PandoREST
import PandoTree
import PandoWire

// What a request writes, for those who prepare it.

extension Action {
    /// The nodes of its data that take long to free.
    var largeNodes: [Node] { writes?.largeNodes ?? [] }

    /// Paths of a merge; 0 for any other request.
    var entryCount: Int {
        switch self {
        case .merge(_, let entries), .onDisconnectMerge(_, let entries): entries.count
        default: 0
        }
    }

    /// The base of a merge; nil for any other request.
    var mergeBase: Path? { if case .merge(let base, _) = self { base } else { nil } }

    /// What it writes, now or at the end of its session; nil for any other request.
    var writes: [Write]? {
        switch self {
        case .put(let write), .transaction(let write, _, _), .onDisconnectPut(let write): [write]
        case .merge(_, let entries), .onDisconnectMerge(_, let entries): entries
        default: nil
        }
    }
}

extension RESTBody {
    /// Paths of an update; 0 for a value.
    var entryCount: Int { if case .update(let update) = self { update.writes.count } else { 0 } }

    /// What it writes.
    func writes(at target: Target) -> [Write] {
        switch self {
        case .value(let draft): [Write(target, draft)]
        case .update(let update): update.writes
        }
    }

    /// The nodes of its data that take long to free.
    var largeNodes: [Node] { writes(at: Target(.root)).largeNodes }
}

extension [Write] {
    /// None of a merge of many paths: it is freed with what was prepared.
    fileprivate var largeNodes: [Node] {
        large(heavierThan: PrintedNodes.leastByteCount()) { _ in true }
    }

    /// Large nodes that the journal holds as they are: where there are server values, it holds another node.
    /// None of a merge of many paths: it is printed as a whole when it is prepared.
    func nodesToPrint(heavierThan byteCount: Int) -> [Node] {
        large(heavierThan: byteCount, where: \.placeholders.isEmpty)
    }

    private func large(heavierThan byteCount: Int, where isChosen: (Draft) -> Bool) -> [Node] {
        guard count <= Engine.largeMergeCount else { return [] }
        return compactMap {
            isChosen($0.draft) && $0.draft.node.isHeavier(than: byteCount) ? $0.draft.node : nil
        }
    }
}
