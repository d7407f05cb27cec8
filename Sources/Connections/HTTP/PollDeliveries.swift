import PandoEngine

/// Responses of long polling that were written on one connection, of which it is not known whether the client
/// has received them. What the client's system has acknowledged its program has read when it asks again on
/// the same connection, or closes it in order: to close while input is pending is a reset.
struct PollDeliveries {
    private struct Delivery {
        let session: SessionID
        let sent: SentResponses
        /// Of all that was written to the connection, the byte behind them.
        let end: Int
        /// It was reported to the session that the client's system has acknowledged them.
        var isAcknowledged = false
    }

    /// In the order in which they were written.
    private var deliveries: [Delivery] = []
    /// Clients ask again when they have a response, so they have one or two. Only one that sends its requests
    /// ahead has more; its connection is closed then.
    private static let limit = 256

    /// There are as many as may be.
    var isFull: Bool { deliveries.count >= Self.limit }

    var isEmpty: Bool { deliveries.isEmpty }

    /// The last of them is not known to be acknowledged.
    var awaitsAcknowledgement: Bool { deliveries.last?.isAcknowledged == false }

    /// Responses of a session were written.
    /// - Parameter end: Bytes that were written to the connection by now.
    mutating func append(_ sent: SentResponses, of session: SessionID, end: Int) {
        deliveries.append(Delivery(session: session, sent: sent, end: end))
    }

    /// All are known to have arrived, or to be lost.
    mutating func settle(_ outcome: PollDelivery, _ context: inout ConnectionContext) {
        guard !deliveries.isEmpty else { return }
        for delivery in exchange(&deliveries, with: []) { report(delivery, outcome, &context) }
    }

    /// The client asks again: it has received what its system has acknowledged. What it has not, it may have
    /// asked ahead of.
    mutating func settleAcknowledged(_ context: inout ConnectionContext) {
        let taken = context.socket.acknowledgedByteCount
        let received = Array(deliveries.prefix { $0.end <= taken })
        deliveries.removeFirst(received.count)
        for delivery in received { report(delivery, .received, &context) }
    }

    /// Reports to the sessions what the client's system has acknowledged.
    mutating func noteAcknowledged(_ context: inout ConnectionContext) {
        guard let last = deliveries.last, !last.isAcknowledged,
            last.end <= context.socket.acknowledgedByteCount
        else { return }
        for index in deliveries.indices where !deliveries[index].isAcknowledged {
            deliveries[index].isAcknowledged = true
            report(deliveries[index], .acknowledged, &context)
        }
    }

    /// The session waits no longer for a sign that its responses have arrived.
    mutating func drop(of session: SessionID, _ context: inout ConnectionContext) {
        let lost = deliveries.filter { $0.session == session }
        deliveries.removeAll { $0.session == session }
        for delivery in lost { report(delivery, .lost, &context) }
    }

    /// The connection is gone.
    /// - Parameter inOrder: It was closed by this side, after everything was sent.
    mutating func end(inOrder: Bool, _ context: inout ConnectionContext) {
        guard let last = deliveries.last else { return }
        settle(inOrder && last.end <= context.socket.acknowledgedByteCount ? .received : .lost, &context)
    }

    private func report(
        _ delivery: Delivery, _ outcome: PollDelivery, _ context: inout ConnectionContext
    ) {
        let isLast = !deliveries.contains { $0.session == delivery.session }
        context.append(
            .http(.delivery(of: delivery.session, delivery.sent, outcome, isLast: isLast)))
    }
}
