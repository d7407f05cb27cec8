import PandoDatabase
import PandoEngine
import PandoREST
import PandoTree

/// What is done with the result of a call, before its response is printed.
enum ResultStep {
    /// Another thread does what the databases have deferred.
    case inspect(InspectionJob)
    /// The event stream begins.
    case stream
    /// A worker measures the data first: it may be larger than a response may be, and its tag takes time.
    case measure(Node, IndexedQuery?, byteLimit: Int?, wantsETag: Bool)
    /// The result is the response, with this tag.
    case respond(etag: String?)
    case refuse(RESTError)

    /// - Parameter readByteLimit: Bytes of the response to one read.
    /// - Complexity: Of small data it makes the tag; of large data it looks at a bounded part.
    init(_ result: RESTCallResult, of request: RESTRequest, readByteLimit: Int) {
        if case .deferred(let job) = result {
            self = .inspect(job)
            return
        }
        if case .stream = result {
            self = .stream
            return
        }
        let byteLimit = result.isRead && !request.isShallow ? readByteLimit : nil
        if case .filtered(let node, let query) = result {
            self = .measure(node, query, byteLimit: byteLimit, wantsETag: request.returnsETag)
            return
        }
        let wantsETag = result.wantsETag(request)
        guard let node = result.node, byteLimit != nil || wantsETag else {
            self = .respond(etag: nil)
            return
        }
        let isLarge = node.isHeavier(than: min(StreamOutput.measuredByteCount, byteLimit ?? .max))
        if isLarge, let byteLimit, byteLimit <= StreamOutput.measuredByteCount {
            self = .refuse(.readTooLarge)
        } else if isLarge {
            self = .measure(node, nil, byteLimit: byteLimit, wantsETag: wantsETag)
        } else {
            self = .respond(etag: wantsETag ? node.etag : nil)
        }
    }
}
