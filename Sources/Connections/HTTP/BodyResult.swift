import PandoDatabase
import PandoEngine
import PandoREST

/// What became of a body that a thread has inflated and parsed (``ConnectionAction/readBody(_:isGzip:_:)``).
package struct BodyResult: Sendable {
    package enum Content: Sendable {
        /// Of a write to data.
        case data(RESTBody)
        /// Of everything else: as they are.
        case bytes([UInt8])
        case refused(RESTError)
    }

    package var session: SessionID
    package var content: Content
    /// Bytes, inflated.
    package var byteCount: Int
    /// What it takes of the process's memory, as long as the request is not finished.
    package var grant: ParsingBudget.Grant?

    package init(session: SessionID, content: Content, byteCount: Int) {
        self.session = session
        self.content = content
        self.byteCount = byteCount
    }
}
