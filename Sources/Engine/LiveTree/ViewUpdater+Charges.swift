import PandoTree

extension ViewUpdater {
    /// Charges sessions with the windows that have changed by much, and ends listens that they may not have
    /// any more. After every write and every result of a scan; O(recipients of these windows).
    func chargeResizedWindows(_ listens: inout ListenRegistry) {
        // Where listens end, the others share their windows: each time by half as many, at least.
        while !resized.isEmpty {
            for view in resized.removeAll() { chargeRecipients(of: view, &listens) }
        }
    }

    private func chargeRecipients(of view: QueryView, _ listens: inout ListenRegistry) {
        for recipient in view.recipients.members {
            let key = FilteredListenKey(path: view.path, query: view.query, tag: recipient.tag)
            guard let hasSpace = listens.recharge(key, view, of: recipient.session) else { continue }
            outcome.noteRecharge(of: recipient.session)
            guard !hasSpace else { continue }
            outcome.noteEnd(
                of: OutgrownListen(session: recipient.session, path: view.path, tag: recipient.tag))
            if let ended = listens.remove(key, of: recipient.session) { noteEnd(of: ended) }
        }
    }
}
