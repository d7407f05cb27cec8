import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoREST

/// What an HTTP connection knows of the requests of long polling that came over it (realtime §1.5).
struct PollExchange {
    /// Moves of one connection between loops, each of which makes work; then it is closed behind its
    /// response.
    private static let moveLimit = 256

    /// How often the connection was moved between loops.
    var moveCount = 0
    /// The session whose poll waits for its answer.
    var session: SessionID?
    var deliveries = PollDeliveries()
    private var hasAnswered = false

    /// The connection has moved so often that it is given up in favour of a new one.
    var hasMovedTooOften: Bool { moveCount >= Self.moveLimit }

    /// Whether the next request must wait until the client has taken what it was answered: where that may be
    /// for a session of another loop, what is not sent by then is copied there.
    func mustDrain(_ context: borrowing ConnectionContext) -> Bool {
        (moveCount > 0 || hasAnswered) && context.socket.isOpen && !context.isDrained
    }

    /// Writes the answer to a poll.
    mutating func write(
        _ answer: PollResponse, of session: SessionID, _ response: ResponseContext,
        _ context: inout ConnectionContext
    ) {
        Self.write(answer.scripts, response, &context)
        hasAnswered = true
        deliveries.append(answer.numbers, of: session, end: context.socket.writtenByteCount)
        // What is written to a connection that is closing is not sent.
        if !context.socket.isOpen { deliveries.settle(.lost, &context) }
    }

    /// Writes that the session that was asked for is over, or was never.
    static func writeClosed(_ response: ResponseContext, _ context: inout ConnectionContext) {
        var script: [UInt8] = []
        script.append(closeCommand: nil)
        write([SharedBytes(script)], response, &context)
    }

    private static func write(
        _ scripts: [SharedBytes], _ response: ResponseContext, _ context: inout ConnectionContext
    ) {
        var head: [UInt8] = []
        head.append(statusLine: .ok)
        head.append(field: "Content-Type", "application/javascript; charset=utf-8")
        head.append(field: "X-Content-Type-Options", "nosniff")
        head.append(field: "Cache-Control", "no-store")
        head.append(field: "Access-Control-Allow-Origin", "*")
        head += response.dateLine
        head.append(field: "Content-Length", decimal: UInt64(scripts.reduce(0) { $0 + $1.count }))
        head.append(
            response.keepsAlive
                ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n" as StaticString)
        context.write(head)
        for script in scripts { context.write(script) }
    }
}

/// Why a request of long polling is not one: its response.
enum PollRefusal {
    case status(HTTPStatus, allowing: StaticString? = nil)
    case malformed(LongPollingRequest.Malformed)

    func response(_ context: ResponseContext) -> RESTResponse {
        switch self {
        case .status(let status, let methods):
            .error(status, text: "\(status.reasonPhrase)", allowing: methods, context)
        case .malformed(let error):
            .error(.badRequest, text: "missing or malformed parameter: \(error.parameter)", context)
        }
    }
}
