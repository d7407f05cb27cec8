import PandoEngine
import PandoRules
import PandoStorage
import PandoTime
import PandoWire

// What becomes of one message.

extension DatabaseHost {
    /// What became of a message.
    enum Progress {
        case done
        /// It waits for a computation, and everything behind it of its session does, too.
        case suspended(SessionID, RequestBacklog.DatabaseID)
        /// The sessions of ``AccessManager/takeUnsuspended()`` wait for the check of their listens.
        case suspendedForChecks
        /// It was what a suspended session waited for.
        case resumed(SessionID)
        /// The listens of these sessions are checked; most of the work was for the first one.
        case checked(SessionID?, [SessionID])
    }

    /// Processes a message, and measures one of many.
    func process(_ message: consuming DatabaseMessage, isLight: Bool) -> Progress {
        usageCountdown &-= 1
        guard usageCountdown == 0 else { return perform(message, isLight: isLight) }
        let measurement = processor.beginUsage(of: message)
        let progress = perform(message, isLight: isLight)
        // One that is suspended comes again, with a chance of its own.
        var isSuspended = false
        if case .suspended = progress { isSuspended = true }
        usageCountdown = processor.endUsage(isSuspended ? nil : measurement)
        return progress
    }

    /// - Parameter isLight: Nothing has to be computed first.
    private func perform(_ message: consuming DatabaseMessage, isLight: Bool) -> Progress {
        // Before any other write: what waits was to be written first.
        if !sessions.isIdle { sessions.performDeferredIfPossible() }
        sessions.endSomeListensIfMany()
        switch consume message {
        case .request(let request):
            if processor.refuseIfCredentialEnded(request) {
                processedByteCount += request.byteCount
                return .done
            }
            if !isLight, let database = preparer.suspend(request) {
                return .suspended(request.session, database)
            }
            processor.process(request)
            if processor.isUndecided { return suspendUndecided(request) }
            processedByteCount += request.byteCount
        case .rest(let session, let call, let byteCount):
            return perform(call, byteCount: byteCount, of: session, isLight: isLight)
        case .reply(let session, let reply, let byteCount):
            processedByteCount += byteCount
            processor.count(reply)
            // The server has ended the session: nothing follows that.
            if !isDraining || processor.sessions[session] != nil {
                processor.reply(reply, to: session)
            }
        case .windowMark(let session): processor.encoder.returnWindowMark(to: session)
        case .lagging(let session):
            if processor.sessions[session] != nil { processor.coalescer.beginLag(of: session) }
        case .caughtUp(let session):
            if let missed = processor.coalescer.endLag(of: session) { processor.send(missed, to: session) }
        case .open(let session, let request): return open(session, request)
        case .credentialChanged(let session, let credential, let number):
            return progress(after: access.change(session, to: credential, number: number), of: session)
        case .credentialEnded(let session, let number):
            return progress(after: access.endCredential(number, of: session), of: session)
        case .revoked(let session, let signIns, let number):
            sessions.revoke(signIns, upTo: number, of: session)
        case .closed(let session): return close(session)
        case .continueEnding(let database): sessions.endSomeListens(of: database)
        case .rules(let rulesets):
            access.load(rulesets)
            return .suspendedForChecks
        case .listenChecks:
            let (busiest, finished) = access.checkSome()
            return .checked(busiest, finished)
        case .prepared(let prepared): return resumeUnlessChecking(prepared)
        case .indexed(let name, let result):
            if let database = processor.databases[name] { processor.finish(result, in: database) }
        // Noted when they arrived.
        case .storage, .outputsDelivered: break
        case .drain(let completion): drain(completion)
        case .statistics(let request): processor.perform(request)
        case .usage(let request): request(processor.usageSnapshot)
        case .trees(let give): give(processor.databases.all.map { $0.engine.root })
        // Taken at the end of the batch.
        case .backup(let request): backupRequest = request
        }
        return .done
    }

    /// Has another thread find out whether the rules permit a write.
    private func suspendUndecided(_ request: PostedRequest) -> Progress {
        if let action = processor.takeUndecided().flatMap({ Action($0) }) {
            request.returnAction(action)
            if let database = preparer.suspend(request, after: .undecided) {
                return .suspended(request.session, database)
            }
        }
        processor.reply(.contested(request.number), to: request.session)
        processedByteCount += request.byteCount
        return .done
    }

    // MARK: REST

    private func perform(
        _ call: RESTCall, byteCount: Int, of session: SessionID, isLight: Bool
    ) -> Progress {
        // A small write may replace much.
        if !isLight || call.isWrite,
            let database = preparer.suspend(call, byteCount: byteCount, of: session)
        {
            return .suspended(session, database)
        }
        processor.encoder.noteRequest(received: burstBegan)
        rest.process(call, byteCount: byteCount, of: session)
        if processor.takeUndecided() != nil {
            if let database = preparer.suspend(call, byteCount: byteCount, of: session, after: .undecided) {
                return .suspended(session, database)
            }
            processor.encoder.respond(.refused(.contested), to: session)
        }
        processedByteCount += byteCount
        if !isLight, case .data(_, let body?, _) = call.action { processor.releases.add(body.largeNodes) }
        // It may have brought new rules.
        return access.hasUnsuspended ? .suspendedForChecks : .done
    }

    // MARK: Sessions

    private func open(_ session: SessionID, _ request: OpenRequest) -> Progress {
        guard !isDraining else {
            // The server stops.
            processor.encoder.close(session, .goingAway)
            return .done
        }
        if let old = sessions.session(replacedBy: request, session),
            let database = preparer.suspend(endOf: old, before: .open(session, request), of: session)
        {
            return .suspended(session, database)
        }
        sessions.open(session, request)
        return .done
    }

    private func progress(
        after change: AccessManager.CredentialChange, of session: SessionID
    ) -> Progress {
        switch change {
        case .applied: break
        case .checking: return .suspendedForChecks
        case .tooManyChecks:
            processor.encoder.close(session, .finished)
            sessions.end(session)
        }
        return .done
    }

    private func close(_ session: SessionID) -> Progress {
        if let database = preparer.suspend(endOf: session, before: .closed(session), of: session) {
            return .suspended(session, database)
        }
        sessions.end(session)
        return .done
    }

    // MARK: Suspended requests

    private func resumeUnlessChecking(_ prepared: PreparedRequest) -> Progress {
        guard !access.isChecking(prepared.session) else {
            heldPreparations[prepared.session] = prepared
            return .done
        }
        return resume(prepared)
    }

    /// Executes a request that was suspended, with what was computed for it.
    private func resume(_ prepared: PreparedRequest) -> Progress {
        let isDone =
            if case .request(let request) = prepared.message, processor.refuseIfCredentialEnded(request) {
                true
            } else {
                preparer.finish(prepared, endsAtOnce: sessions.isIdle, execute: execute)
            }
        // Freed by another thread: text, indexes and what only the snapshot holds may be large.
        switch prepared.preparation {
        case .printed, .write, .window, .hash, .rules, .superseded, .abandoned:
            processor.releases.add(prepared)
        case .index: break
        }
        guard isDone else { return .done }
        processedByteCount += prepared.byteCount
        return .resumed(prepared.session)
    }

    /// Ends all sessions, and opens no more.
    private func drain(_ completion: @escaping @Sendable () -> Void) {
        for session in processor.sessions.ids {
            // No request is executed any more that would wait for it.
            sessions.beginBatch()
            processor.encoder.close(session, .goingAway)
            sessions.end(session)
        }
        isDraining = true
        onDrained = completion
    }

    /// Executes a request that was prepared.
    private func execute(_ message: DatabaseMessage) {
        switch message {
        case .request(let request): processor.process(request)
        case .rest(let session, let call, let byteCount):
            rest.process(call, byteCount: byteCount, of: session)
        case .closed(let session): sessions.end(session)
        case .open(let session, let request): sessions.open(session, request)
        default: preconditionFailure("only requests, and what ends sessions, are prepared")
        }
    }
}
