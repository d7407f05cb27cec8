import PandoEngine
import PandoREST
import PandoStorage
import PandoTree

/// What takes too long for the thread of the databases, mostly for administrators: the databases gather
/// what it needs, and the loop of the request has another thread do it. As an output it is released when all
/// that it may show is durable.
package enum InspectionJob: Sendable {
    /// A thread reads it from the files of the data directory.
    case history(HistoryQuestion)
    /// A worker evaluates it on a snapshot.
    case evaluation(EvaluationJob)
    /// A worker prints it of a snapshot, for all who may read the location.
    case children(ChildListing, Node)
    /// The admin thread says it. The databases are not asked: it is answered also while they are busy.
    case server(ServerQuestion)
}

/// The result of an ``InspectionJob``.
package struct InspectionResult: Sendable {
    package var session: SessionID
    package var report: RESTReport

    package init(session: SessionID, report: RESTReport) {
        self.session = session
        self.report = report
    }
}
