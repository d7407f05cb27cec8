import PandoBytes

/// What a poll is sent.
package struct PollResponse {
    /// To be sent one after the other.
    var scripts: [SharedBytes]
    /// The responses in them; none where the poll is a late copy of one.
    var numbers: [Int]
}

/// What is known of a response to a poll.
package enum PollDelivery {
    case underWay, acknowledged, received, lost
}
