import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoREST
import PandoTime
import PandoTree

/// What the owner of a state machine must do, before the machine gets its next event: first, in order, what
/// concerns the connection alone. Actions that lead to events, of this or another state machine, come after
/// that, in the order of the events that decided them, and never from inside one another: a client decides
/// how long such a chain is.
package enum ConnectionAction {
    // MARK: The socket

    case write([UInt8])
    case writeShared(SharedBytes)
    /// Close the connection when everything is sent; write nothing more.
    case closeAfterFlush
    /// Close the connection now; what is unsent is dropped.
    case close
    /// The same with a reset, so that the kernel drops what it holds, too.
    case reset

    // MARK: Work that takes long, and comes back as an event

    /// `verified`: a token.
    case verify(Text)
    /// `parsed`: a large message.
    case parse([UInt8])
    /// `parsed`: a message that is compressed, and large when it is not.
    case inflate([UInt8])
    /// `encoded`: a message that workers encode.
    case encode(LargeMessage)
    /// `measured`: the size and ETag of data, or of what a query lets through.
    indirect case measure(Node, IndexedQuery?, byteLimit: Int?, wantsETag: Bool)
    /// `measured`: the event of a large query window is made, and its size is known.
    case makeWindow(StreamWindow)
    /// `inspected`: a report for an administrator.
    indirect case inspect(InspectionJob)
    /// `bodyRead`: a large or compressed body.
    indirect case readBody(ByteBlocks, isGzip: Bool, RESTRequest)
    /// The result of ``readBody(_:isGzip:_:)`` is not needed any more.
    case cancelBody
    /// No result of the others is needed any more.
    case abandonJobs
    /// Free the body of a PATCH of many paths, which takes milliseconds.
    indirect case release(RESTUpdate)
    /// Free a large body that nothing reads (``ByteBlocks/takesLongToFree``).
    indirect case releaseBody(ByteBlocks)
    /// `nextTurn`: call it when other connections have had their turn.
    case nextTurn

    // MARK: Time

    /// `deadlinePassed` at that time; nil cancels. Replaces the one before.
    case wake(at: MonotonicTime?)
    /// `expired` when the wall clock has reached so many seconds since 1970; nil cancels. Replaces the one
    /// before.
    case expire(at: Int64?)
    /// `recheck`: with the revocations as they are now.
    case recheck

    // MARK: Counts

    /// Count that the client has exceeded a limit.
    case countLimit(ClientLimit)
    /// Count that a write waits because of a limit.
    case countDelay(ClientLimit)

    // MARK: Of one kind of connection

    indirect case http(HTTPAction)
    case polling(LongPollingAction)
    case handover(HandoverAction)
}

/// What only an HTTP connection asks for.
package enum HTTPAction {
    /// The client wants a WebSocket: ``HTTPConnection/upgrade(_:joining:_:)`` answers.
    case upgrade(UpgradeRequest, rest: [UInt8])
    /// Move the connection, with this request, to the loop of its session.
    case move(MovedRequest, toLoop: UInt8)
    /// Begin a session by long polling, whose first response goes to this connection.
    case startPolling(LongPollingRequest.Start, host: [UInt8], hasCertificate: Bool)
    /// Find the session of a poll, which waits here for its response.
    case poll(LongPollingRequest.Poll, QueryString)
    /// End a session by long polling: its page was left.
    case disconnectPolling(LongPollingRequest.Address)
    /// The poll of the session that waited here is lost.
    case pollIsLost(of: SessionID)
    /// Something was sent behind the poll that waits, or will: it is not to wait longer.
    case hurryPoll(of: SessionID)
    /// What is known now of responses that were written here.
    /// `isLast`: no others of the session are in doubt here.
    case delivery(of: SessionID, SentResponses, PollDelivery, isLast: Bool)
    /// Log that a `--dev` server has refused a request.
    case reportForeign(ForeignRequest)
    /// Report that a trusted proxy has a client that does not use TLS.
    case reportPlainClient
    /// Count that the administrators' reserve has refused a request.
    case countRefusal
    /// The connection in the reserve is an administrator's.
    case keepReserved
    /// Log a request, whose response begins.
    case logAccess(LoggedRequest)
}
