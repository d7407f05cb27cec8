import PandoBytes

/// What a poll is sent.
package struct PollResponse {
    /// To be sent one after the other.
    var scripts: [SharedBytes]
    /// The responses in them; none where the poll is a late copy of one.
    var numbers: [Int]
    /// Counts what the session's polls were sent: where a response is sent again, its copies differ by it.
    var copy = 0

    /// What a connection reports the delivery of.
    var sent: SentResponses { SentResponses(numbers: numbers, copy: copy) }
}

/// Responses that one poll was sent.
package struct SentResponses: Equatable, Sendable {
    let numbers: [Int]
    /// ``PollResponse/copy``.
    let copy: Int
}

/// What is known of a response to a poll.
package enum PollDelivery {
    case underWay, acknowledged, received, lost
}
