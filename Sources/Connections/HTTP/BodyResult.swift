import PandoDatabase
import PandoEngine
import PandoREST

/// What became of a body that a thread has inflated and parsed (``ConnectionAction/readBody(_:isGzip:_:)``).
package struct BodyResult: Sendable {
    package enum Content: Sendable {
        /// Of a write to data.
        case data(RESTBody)
        /// What the rules are asked.
        case evaluation(EvaluationRequest)
        /// Of everything else: as they are.
        case bytes([UInt8])
        case refused(RESTError)

        /// Parses the body of a request. O(bytes).
        /// - Parameters:
        ///   - bytes: Inflated.
        ///   - byteLimit: The most bytes that the body may have.
        /// - Throws: As ``RESTRequest/readBody(_:byteLimit:)`` and ``EvaluationRequest/init(reading:)``.
        package init(
            reading bytes: consuming [UInt8], of request: RESTRequest, byteLimit: Int
        ) throws(RESTError) {
            switch request.location {
            case .data: self = .data(try request.readBody(bytes.rawSpan, byteLimit: byteLimit))
            case .inspect(.evaluate): self = .evaluation(try EvaluationRequest(reading: bytes.rawSpan))
            case .rules, .settings, .inspect: self = .bytes(bytes)
            }
        }
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
