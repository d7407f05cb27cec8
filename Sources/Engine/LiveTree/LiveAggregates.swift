import PandoTree

// Live aggregates: filtered listens whose query has aggregates (rest §5.6, realtime §4.9).
//
//     write ──▶ its range is touched ──▶ computed anew, by the index: O(log n) ──▶ another value ──▶ push
//                                    └─▶ no index yet: a scan by another thread, over a snapshot ──▶ push
//
// While a scan is under way, further writes are only noted: then another one follows, or the index computes
// the value. So each value that is sent is that of one moment, values come in the order of these moments, and
// the last one is the current one.

extension QueryView {
    /// Notes a value.
    /// - Returns: The push of it; nil where the recipients have it.
    func publish(_ value: Node) -> Push.Body? {
        guard aggregate?.value != value else { return nil }
        aggregate?.value = value
        return .overwrite(path, value)
    }

    /// Computes the aggregates anew.
    /// - Parameters:
    ///   - node: The location's data.
    ///   - isFirst: For a listen that begins: its recipient is sent the value by itself.
    ///   - hasTime: false where the write in progress has computed so many that another thread is to do it.
    /// - Returns: The push of another value; nil where it is as it was, or comes later.
    func recompute(
        over node: Node, _ updater: ViewUpdater, isFirst: Bool = false, hasTime: Bool = true
    ) -> Push.Body? {
        let indexed = updater.indexes.indexed(query, at: path)
        updater.indexes.noteUse(of: query, at: path, over: node, isLasting: true)
        let inlineCount =
            isFirst ? IndexCatalog.defaultVisitedChildCount : IndexCatalog.defaultUnindexedChildCount
        if !hasTime || indexed.visits(moreThan: inlineCount, of: node) {
            if case .underWay? = scan { aggregate?.isScanOutdated = true }
            updater.scans.add(self)
            return nil
        }
        // A scan that is under way is of an earlier moment.
        updater.scans.cancel(self)
        aggregate?.isScanOutdated = false
        return publish(indexed.result(over: node))
    }
}
