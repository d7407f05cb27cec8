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
    /// Reads what the databases have deferred (``InspectionJob``).
    case inspecting
    /// No thread: the loop has printed enough in this tick. The result, and the ETag of its data, are there.
    indirect case awaitingTurn(RESTCallResult, etag: String?)
}
