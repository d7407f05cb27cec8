import PandoBytes
import PandoReactor

/// The worker of a connection: what it does when something has happened there.
protocol ClientDelegate: AnyObject {
    /// The connection is open, and signed in where that is needed.
    func clientIsUp(_ client: Client)
    /// The last call for this connection, unless it connects again.
    /// - Parameter problem: nil where we have asked for the end.
    func clientEnded(_ client: Client, problem: String?)
    /// A request has its reply.
    func replied(_ client: Client, _ request: Pending, _ reply: Reply, _ text: RawSpan)
    /// The response to this request will not come.
    func requestLost(_ client: Client, _ request: Pending)
}

/// Gets what is pushed to a connection.
protocol PushReceiver: AnyObject {
    /// Whether ``pushed(_:action:body:_:)`` is called in place of ``pushed(_:_:)``: it costs a walk over the
    /// message.
    var wantsWholePushes: Bool { get }
    /// A value was pushed.
    func pushed(_ client: Client, _ text: RawSpan)
    /// The same with its parts.
    func pushed(_ client: Client, action: String, body: Range<Int>, _ text: RawSpan)
}

/// One connection: requests, whose responses arrive in their order, and values that are pushed. Confined to
/// its worker's loop.
///
/// Subclasses implement a protocol. Operations that a protocol does not have are not called: ``Work`` and
/// ``WireProtocol`` are checked before a run.
class Client {
    let index: Int
    let context: WorkerContext
    /// The owner. ``Worker/release()`` breaks the cycle at the end.
    let delegate: any ClientDelegate
    let pushes: any PushReceiver
    let isSender: Bool

    /// Requests without a reply, oldest first.
    let pending = FIFO<(number: Int, request: Pending)>()
    /// Operations under way, and the due times of those that wait because ``Plan/inFlight`` are.
    var inFlight = 0
    let backlog = FIFO<Int>()
    /// The last value's number that this sender has sent.
    var sent = 0
    private(set) var channel: Channel?
    private(set) var isUp = false
    /// How often it has been up.
    private(set) var upCount = 0
    /// We have asked for the end of the connection.
    private(set) var isLeaving = false
    private(set) var isDown = false

    init(
        _ index: Int, _ context: WorkerContext, _ delegate: any ClientDelegate, _ pushes: any PushReceiver
    ) {
        self.index = index
        self.context = context
        self.delegate = delegate
        self.pushes = pushes
        isSender = context.plan.isSender(index) && index >= 0
    }

    /// Connected and signed in, and not ended.
    final var canSend: Bool { isUp && !isDown }

    /// Connects; ``ClientDelegate/clientIsUp(_:)`` or ``ClientDelegate/clientEnded(_:problem:)`` follows.
    final func connect() {
        (isUp, isLeaving, isDown) = (false, false, false)
        do {
            try context.plan.target.connect(on: context.loop) { [self] channel in
                self.channel = channel
                return makeDelegate(on: channel)
            } onFailure: { [self] error in
                ended("\(error)")
            }
        } catch {
            ended("\(error)")
        }
    }

    // MARK: For subclasses

    func makeDelegate(on channel: Channel) -> any ChannelDelegate {
        preconditionFailure("implemented by subclasses")
    }

    final func up() {
        isUp = true
        upCount += 1
        delegate.clientIsUp(self)
    }

    final func ended(_ problem: String?) {
        guard !isDown else { return }
        isDown = true
        channel = nil
        delegate.clientEnded(self, problem: isLeaving ? nil : problem ?? "ended by the server")
    }

    /// The oldest request has its reply.
    final func replied(_ reply: Reply, _ text: RawSpan) {
        guard let oldest = pending.popFirst() else {
            return context.findings.add(\.duplicates, "connection \(index): a reply to no request")
        }
        delegate.replied(self, oldest.request, reply, text)
    }

    final func leave() { isLeaving = true }

    // MARK: Verbs

    /// Sets the value with the number `request.detail` at `path`, and has it acknowledged.
    /// - Parameters:
    ///   - path: Asked for only when `place` is another than the last time.
    ///   - place: A number for the path, unique among the paths of this sender.
    func set(_ path: @autoclosure () -> String, place: Int, _ request: Pending) {
        preconditionFailure("no such verb")
    }

    /// The same; the value is to be pushed to the listeners of `path`.
    func publish(_ path: @autoclosure () -> String, place: Int, _ request: Pending) {
        set(path(), place: place, request)
    }

    func listen(_ path: String, _ request: Pending) { preconditionFailure("no such verb") }

    /// The same, of a client that has the data with this hash already.
    func listen(_ path: String, hash: String, _ request: Pending) { preconditionFailure("no such verb") }

    /// The response has the current value, and arrives after everything that was pushed before.
    func fetch(_ path: String, _ request: Pending) { preconditionFailure("no such verb") }

    /// Removes what was written there.
    func remove(_ path: String, _ request: Pending) { preconditionFailure("no such verb") }

    /// Ends the connection in a regular way.
    func close() { preconditionFailure("no such verb") }

    /// Resets the connection, as a lost network does.
    func cut() {
        leave()
        channel?.reset()
    }
}
