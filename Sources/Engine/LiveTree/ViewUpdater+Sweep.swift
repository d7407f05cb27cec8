import PandoTree

extension ViewUpdater {
    /// Does a step of the sweep: updates some of the views that await it.
    /// - Parameters:
    ///   - tree: The data now.
    ///   - listens: Those that may not have so large a window any more end.
    func sweepSomeViews(over tree: Node, _ listens: inout ListenRegistry) {
        guard var sweep = sweeps.beginStep() else { return }
        budget.beginSweepStep()
        var visitsLeft = ViewSweep.stepVisits
        while visitsLeft > 0, !budget.isUsedUp, let key = sweep.next() {
            visitsLeft -= ListenCost.visits(at: key.path)
            guard sweep.base.contains(key.path), let node = listens.table.node(at: key.path),
                let index = node.position(of: key.query)
            else { continue }
            let view = node.views[index]
            guard view.awaitsSweep(self) else { continue }
            view.checkedSweep = sweep.number
            let value = tree[key.path]
            let cost = UpdateBudget.cost(of: view, nil, over: value, indexes)
            if cost > budget.sweepStepLimit, view.aggregate == nil {
                // Another thread finds so large a window.
                budget.spend(UpdateBudget.visitsPerPush)
                view.requestReplacement(self)
                continue
            }
            budget.spend(cost)
            let body =
                view.aggregate == nil
                ? view.replace(with: value, self)
                : view.recompute(over: value, self)
            node.updateRange(of: view)
            resized.note(view)
            // A listen that may not have so large a window ends before it is sent that.
            chargeResizedWindows(&listens)
            guard let body, !view.recipients.isEmpty else { continue }
            budget.spendPush(to: view)
            push(body, to: view)
        }
        sweeps.end(sweep)
    }
}
