import PandoREST
import PandoDatabase

/// What another thread does for the request in progress: one thing after the other.
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
}
