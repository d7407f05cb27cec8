import Synchronization

/// The end of a run: what is under way is awaited, every connection checked and closed, the data removed.
extension Worker {
    func stop() {
        guard isRunning else { return }
        isRunning = false
        isDraining = true
        let end = min(context.now, endMoment)
        for client in senders {
            // They were due, and have waited at least until now.
            while let waiting = client.backlog.popFirst() {
                unsentCount += 1
                context.statistics.record(0, since: waiting, at: end)
            }
        }
        drainedIfIdle()
    }

    /// Reports to the coordinator when nothing is under way.
    func drainedIfIdle() {
        guard isDraining, scenario.isQuiet, senders.allSatisfy({ $0.inFlight == 0 }) else { return }
        isDraining = false
        post(.done(.drained))
    }

    func checkAll() {
        isDraining = false
        for client in clients {
            for _ in 0..<client.inFlight {
                context.findings.add(\.unanswered, "connection \(client.index): an operation did not end")
            }
            client.inFlight = 0
        }
        guard !clients.isEmpty else { return everythingIsChecked() }
        for client in clients {
            if client.canSend { scenario.check(client) } else { checked(client) }
        }
    }

    func checked(_ client: Client) {
        checkedCount += 1
        context.noteProgress()
        if checkedCount == clients.count { everythingIsChecked() }
    }

    private func everythingIsChecked() {
        let counts = scenario.published
        published.withLock { $0 = counts }
        post(.done(.checked))
    }

    func closeAll() {
        post(.progress(context.statistics.turn(to: 0)))
        isClosing = true
        endedCount = clients.count(where: \.isDown)
        guard endedCount < clients.count else { return post(.done(.closed)) }
        for client in clients where !client.isDown { client.close() }
    }

    func cleanUp() {
        guard let control, !control.isDown else { return cleaned(completely: false) }
        scenario.cleanUp(with: control)
    }
}
