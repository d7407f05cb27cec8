/// All attackers, in the order in which they run.
/// - Parameters:
///   - connections: The most connections of a flood.
///   - halfMessages: Connections with half a message.
func allAttackers(connections: Int, halfMessages: Int) -> [any Attacker] {
    [
        FloodConnections(limit: connections), HalfHeads(limit: connections),
        PipelinedGets(node: .children20k, requestCount: 5000),
        PipelinedGets(node: .children200k, requestCount: 2000),
        StaleListens(), FailingTransactions(node: .children20k), FailingTransactions(node: .children200k),
        LargeGets(), UnreadOutput(), Pings(), ControlPings(), HalfMessages(limit: halfMessages),
        HalfBodies(limit: halfMessages), BigMessages(), BigBodies(), ManyWindows(),
        DeepListens(), CoverUncover(),
        WindowsBehind(), GrowingWindows(), ManyOrders(), LongPaths(), ResumingReaders(), LatePolls(),
        DroppedStreams(), TimedReads(),
    ]
}
