import PandoREST
import PandoDatabase

/// What the request in progress waits for, mostly another thread: one thing after the other.
enum RequestWork {
    case none
    /// Verifies its token; its body, or what of it is here, waits.
    case verifying
    /// Inflates and parses its body.
    case readingBody
    /// Measures the data of its result, or filters it.
    case measuring(RESTCallResult)
    /// Does what the databases have deferred (``InspectionJob``).
    case inspecting
    /// The same, where that is a reading of the past, which may take minutes and has a thread for all.
    case readingHistory
    /// No thread: the loop has printed enough in this tick. The result, and the ETag of its data, are there.
    indirect case awaitingTurn(RESTCallResult, etag: String?)

    /// That another thread does a job.
    init(_ job: InspectionJob) {
        switch job {
        case .history: self = .readingHistory
        case .evaluation, .children, .server: self = .inspecting
        }
    }
}
