/// What a measurement does with its connections. Confined to the session's loop.
protocol Load: AnyObject {
    var dialect: WireProtocol { get }
    var connectionCount: Int { get }
    /// Where that connection listens before it counts as ready; nil for nowhere.
    func listenedPath(of index: Int) -> String?

    /// All connections are ready: send as much as may be in flight.
    func begin(_ session: Session)
    /// A message came.
    func received(_ text: RawSpan, by client: Client)

    /// Messages that reached those they are for, since the beginning.
    var deliveryCount: Int { get }
    /// A sum over everything that was delivered.
    var checksum: UInt64 { get }
    /// What was wrong by the end, for `sent` messages in all; empty if nothing.
    func problems(sent: Int) -> [String]
}
