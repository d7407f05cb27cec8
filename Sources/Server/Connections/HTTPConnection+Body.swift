import PandoBytes
import PandoDatabase
import PandoHTTP
import PandoREST
import PandoReactor

// A request's body on its way in.

extension HTTPConnection {
    func awaitBody(_ pending: PendingRequest) {
        if pending.expectsContinue { channel.write(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8).rawSpan) }
        pending.expectsContinue = false
        bodyPace = MinimumRateMonitor(content?.bytes.count ?? 0, at: owner.loop.now)
        channel.readByteLimit = .max
        stage = .body(pending)
    }

    /// - Returns: false when more bytes are needed, or none of them any more.
    func readBody(_ pending: PendingRequest, _ bytes: RawSpan, from offset: inout Int) -> Bool {
        do throws(RequestContent.Refusal) {
            let isComplete = try content?.take(bytes, from: &offset) ?? true
            let byteCount = content?.bytes.count ?? 0
            // May end the request: then nothing of it is left.
            owner.keepUnfinished(byteCount, for: self)
            guard case .body = stage else { return false }
            if isComplete {
                run(pending)
            } else if byteCount > IOLoop.smallByteCount, !pending.isAdmitted {
                admit(pending)
            } else {
                return false
            }
        } catch {
            refuse(error, pending)
        }
        return true
    }

    /// What is kept of the body is compressed.
    var isContentGzip: Bool { if content?.isGzip == true { true } else { false } }

    func takeContent() -> [UInt8] {
        guard content != nil else { return [] }
        let taken = content?.takeBytes() ?? []
        content = nil
        owner.keepUnfinished(0, for: self)
        return taken
    }

    /// Nothing more is read of a body, so nothing behind it can be. What is wrong with it has its place among
    /// all that may be wrong (rest §9).
    func refuse(_ refusal: RequestContent.Refusal, _ pending: PendingRequest) {
        _ = takeContent()
        switch refusal {
        case .http(let error): refuse(error.status)
        case .request(let error):
            pending.context.keepsAlive = false
            pending.bodyProblem = error
            run(pending)
        }
    }
}
