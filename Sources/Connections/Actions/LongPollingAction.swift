import PandoEngine

/// What only a session by long polling asks for. `on` is the HTTP connection of a poll.
package enum LongPollingAction {
    /// ``HTTPConnection/holdPoll(of:)``
    case holdPoll(on: SessionID)
    /// ``HTTPConnection/releasePoll()``
    case releasePoll(on: SessionID)
    /// ``HTTPConnection/answer(_:of:_:)``
    case answer(PollResponse, on: SessionID)
    /// ``HTTPConnection/respondClosed(_:)``
    case respondClosed(on: SessionID)
    /// ``HTTPConnection/refusePoll(_:_:)``
    case refuse(LongPollingRequest.Malformed, on: SessionID)
    /// Reset the connection.
    case reset(SessionID)
    /// ``HTTPConnection/loseDeliveries(of:_:)``
    case loseDeliveries(on: SessionID)
    /// Call ``LongPollingSession/respondToPolls(_:)`` at the end of the tick, when all is there that it
    /// brings.
    case answerAtEndOfTick
    /// No poll waits: the session may be ended in favour of others.
    case noPollWaits
    /// A poll waits, or the session is over.
    case pollWaits
    /// The session is over: forget it at the end of the tick.
    case remove
}
