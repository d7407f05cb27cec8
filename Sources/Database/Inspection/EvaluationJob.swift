import PandoBytes
import PandoEngine
import PandoREST
import PandoRules
import PandoTree

/// Whether rules permit a read or a write, and which of them decide: with the evaluator that decides
/// requests, on a snapshot (rest §10.2).
package struct EvaluationJob: Sendable {
    package var request: EvaluationRequest
    /// The tree before the write.
    package var root: Node
    /// The rules in force.
    package var access: Access
    /// `now`: milliseconds since 1970.
    package var time: Int64

    /// Evaluates. As long as the rules may take for a request, and some times that for their values; O(bytes)
    /// for a draft.
    package func perform() -> RESTReport {
        var access = access
        if let source = request.rules {
            do throws(InvalidRules) { access = .loaded(try Ruleset(loading: source)) } catch {
                // As publishing reports them (rules §8), and once more with their parts.
                return RESTReport(
                    .badRequest, error: error.description, members: Array(",\"problems\":".utf8) + error.json)
            }
        }
        let credential = credential
        let scope = RuleScope(credential: credential, milliseconds: time, root: root)
        switch request.method {
        case .read(let query):
            let trace = access.traceRead(at: request.target.path, query: query, in: scope)
            return RESTReport(prefix: trace.json)
        case .write(let draft):
            guard !request.target.isPriority || draft.node.isEmpty || Priority(draft.node) != nil else {
                return RESTReport(.badRequest, error: RESTError.invalidData(.priority).text)
            }
            // As the engine finds out what to ask, server values included.
            let engine = Engine(root: root, access: .locked)
            let command = Command(
                session: SessionID(0), credential: credential, time: time,
                operation: .put(Write(request.target, draft)))
            guard case .write(_, let after)? = engine.question(of: command) else {
                return RESTReport(.failed, error: RESTError.internalError.text)
            }
            let trace = access.traceWrite(at: request.target.path, after: after, in: scope)
            return RESTReport(prefix: trace.json)
        }
    }

    private var credential: Credential {
        switch request.identity {
        case .administrator: .admin
        case .anonymous: .anonymous
        case .user(let variable): Credential(authVariable: variable)
        }
    }
}

/// A report for a worker to make, on a snapshot.
package struct ReportJob: Sendable {
    package enum Work: Sendable {
        case evaluation(EvaluationJob)
        case children(ChildListing, Node)
    }

    package var session: SessionID
    package var work: Work
    /// Called on the worker thread.
    package var finish: @Sendable (RESTReport) -> Void

    package init(session: SessionID, work: Work, finish: @escaping @Sendable (RESTReport) -> Void) {
        self.session = session
        self.work = work
        self.finish = finish
    }

    /// Bytes of a draft of rules, which is compiled first; 0 where there is none.
    var sourceByteCount: Int {
        switch work {
        case .evaluation(let job): job.request.rules?.count ?? 0
        case .children: 0
        }
    }

    /// Makes it, and calls ``finish``. Some milliseconds; more where there is a large draft of rules.
    func perform() {
        switch work {
        case .evaluation(let job): finish(job.perform())
        case .children(let listing, let root): finish(RESTReport(prefix: listing.json(of: root)))
        }
    }
}
