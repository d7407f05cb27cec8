import PandoBytes
import PandoEngine
import PandoREST
import PandoReactor
import PandoTime
import PandoTree
import PandoWebSocket
import PandoWire

/// Encodes replies and pushes as frames, in one batch for each queue of outputs: each distinct push is
/// printed once, each small reply goes to the arena of its batch (realtime §3, §5). Used by one thread at a
/// time.
struct OutputEncoder {
    private var batches: [OutputBatch]
    /// The message being printed; kept, so that its buffer is used again.
    private var message: [UInt8] = []
    /// Event streams among the sessions.
    var streams: [SessionID: StreamRoot] = [:]
    /// The latest windows that streams were sent, while one holds them; at most ``keptWindowCount``.
    private var windows: [KeptWindow] = []

    /// When the oldest request was read whose results are in the batches; the latest time there is for none.
    private var oldestRequest = MonotonicTime(nanoseconds: .max)

    /// A push had more than ``manyRecipientsCount`` recipients, or a request has taken long, since
    /// ``takeMayHaveTakenLong()``.
    private var mayHaveTakenLong = false

    /// Of the large messages for one client that were made since ``takePins()``.
    private var pins: [SnapshotPin] = []

    /// Bytes of the frames that are shared, once for each recipient; only grows.
    private var fannedOutByteCount = 0

    /// Bytes from which on a push is a large message.
    private var largeByteCount = LargeMessage.byteCount
    /// When a session catches up: bytes that are encoded here. What follows is encoded by a worker.
    private static let caughtUpByteCount = 256 << 10
    /// Pushes up to so many bytes are encoded here even then.
    private static let tinyByteCount = 512

    /// The most different tags of one push whose messages are all encoded here, however large they are, and
    /// however small; between these limits, those whose messages have so many bytes together. Recipients with
    /// one tag share its message then.
    private static let (tagLimit, smallTagLimit) = (64, 1024)
    private static let taggedByteCount = 2 << 20
    /// Recipients of one push from which on the time of its request is measured.
    private static let manyRecipientsCount = 64
    /// The buffer keeps no more capacity than this between messages.
    private static let keptByteCount = 1 << 20
    private static let keptWindowCount = 64

    private struct KeptWindow {
        weak var window: StreamWindow?
    }

    init(queueCount: Int) {
        batches = Array(repeating: OutputBatch(), count: queueCount)
    }

    /// Takes out what was encoded, one batch for each queue.
    /// - Parameter spares: Supplies the batches that are filled next.
    mutating func takeBatches(refillingFrom spares: BufferPool<OutputBatch>) -> [OutputBatch] {
        let began = exchange(&oldestRequest, with: MonotonicTime(nanoseconds: .max))
        return batches.indices.map { index in
            guard !batches[index].isEmpty else { return OutputBatch() }
            batches[index].finish()
            batches[index].began = began
            let empty = spares.acquire() ?? OutputBatch(withRoomFor: batches[index])
            return exchange(&batches[index], with: empty)
        }
    }

    /// A request whose result is encoded next has taken longer than light ones do.
    mutating func noteLongWork() { mayHaveTakenLong = true }

    /// Whether what was done and encoded since the last call may have taken long.
    mutating func takeMayHaveTakenLong() -> Bool {
        guard mayHaveTakenLong else { return false }
        mayHaveTakenLong = false
        return true
    }

    /// Removes and returns the pins of the large messages for one client that were made since the last call.
    mutating func takePins() -> [SnapshotPin] { pins.isEmpty ? [] : exchange(&pins, with: []) }

    /// Notes when a request was read whose results are encoded next.
    mutating func noteRequest(received: MonotonicTime) {
        // `min` would call the comparison through its protocol.
        if received < oldestRequest { oldestRequest = received }
    }

    // MARK: Effects

    mutating func encode(_ pushes: [Push]) {
        for push in pushes { encode(streams.isEmpty ? push : divert(push)) }
    }

    /// Encodes what one session has not been sent yet, which may be very many pushes: some of them here, and
    /// those behind them by a worker, unless they are tiny. They are of many locations, so they have no pins.
    mutating func encode(catchUp pushes: [Push]) {
        let (before, pinCount) = (sentByteCount, pins.count)
        defer {
            largeByteCount = LargeMessage.byteCount
            pins.removeSubrange(pinCount...)
        }
        for push in pushes {
            if sentByteCount &- before > Self.caughtUpByteCount { largeByteCount = Self.tinyByteCount }
            encode(streams.isEmpty ? push : divert(push))
        }
    }

    private mutating func encode(_ push: Push) {
        let untagged = push.recipients
        if push.taggedRecipients.count > Self.manyRecipientsCount { mayHaveTakenLong = true }
        if push.body.isHeavier(than: largeByteCount) {
            guard let groups = TagGroups(push.taggedRecipients, atMost: Self.tagLimit) else {
                return encode(withManyTags: push)
            }
            if !untagged.isEmpty { sendLarge(.push(push.body, tag: nil), to: untagged) }
            for group in groups.all {
                sendLarge(.push(push.body, tag: group.tag), to: [groups.sessions(of: group)])
            }
            return
        }
        message.removeAll(keepingCapacity: message.capacity <= Self.keptByteCount)
        message.append(pushHead: push.body)
        let headCount = message.count
        let limit = min(Self.smallTagLimit, max(Self.tagLimit, Self.taggedByteCount / headCount))
        guard let groups = TagGroups(push.taggedRecipients, atMost: limit) else {
            return encode(withManyTags: push)
        }
        if untagged.contains(where: { !$0.isEmpty }) {
            message.append(pushTail: nil)
            send(to: untagged)
        }
        for group in groups.all {
            message.removeSubrange(headCount...)
            message.append(pushTail: group.tag)
            if let session = groups.onlySession(of: group) {
                sendPush(toOne: session)
            } else {
                send(to: [groups.sessions(of: group)])
            }
        }
    }

    /// Leaves the messages for the tagged recipients to the loops. O(bytes of one message).
    private mutating func encode(withManyTags push: Push) {
        if push.recipients.contains(where: { !$0.isEmpty }) {
            var untagged = push
            untagged.taggedRecipients = []
            encode(untagged)
        }
        var head: [UInt8] = []
        if !push.body.isHeavier(than: largeByteCount) { head.append(pushHead: push.body) }
        let tagged = TaggedPush(push.body, head: head, to: push.taggedRecipients)
        let recipientCount = tagged.recipients.count
        fannedOutByteCount &+= recipientCount &* tagged.byteCount
        for loop in batches.indices {
            batches[loop].sharedByteCount += tagged.byteCount
            batches[loop].recipientCount += recipientCount / batches.count * OutputBatch.recipientsOfItem
            batches[loop].append(.tagged(tagged))
        }
    }

    mutating func encode(_ result: CommandResult, _ number: Int64, to session: SessionID) {
        switch result {
        case .ok: return acknowledge(number, to: session)
        case .data(let node) where node.isHeavier(than: LargeMessage.byteCount):
            return sendLarge(.reply(number, node), to: session)
        case .filtered(let node, let query):
            return sendLarge(.filtered(number, node, query), to: session)
        case .dataStale(let current?) where current.node.isHeavier(than: LargeMessage.byteCount):
            return sendLarge(.stale(number, current), to: session)
        default: break
        }
        append(to: session) { message in
            switch result {
            case .ok, .filtered: break
            case .listening: message.append(reply: number, .ok, .object)
            case .data(let node): message.append(reply: number, .ok, .node(node))
            case .permissionDenied:
                message.append(reply: number, .permissionDenied, .text("Permission denied"))
            case .dataStale(nil): message.append(reply: number, .dataStale, .text(staleText))
            case .dataStale(let current?): message.append(staleReply: number, current)
            case .failed(let reason): message.append(reply: number, .failed, .text(Text("\(reason)")))
            case .limitExceeded(let limit):
                message.append(reply: number, .failed, .text(Text("\(limit.text)")))
            }
        }
    }

    /// Encodes the most frequent reply right into the arena: printed elsewhere and then framed, it costs
    /// twice as much.
    private mutating func acknowledge(_ number: Int64, to session: SessionID) {
        let loop = Int(session.loop)
        let start = batches[loop].arena.count
        let byteLimit = ByteWriter.shortFrameHeaderByteCount + ByteWriter.acknowledgementByteLimit
        batches[loop].arena.append(atMost: byteLimit) { writer in
            writer.append(shortFrame: .text) { $0.append(acknowledgement: number) }
        }
        batches[loop].replyCount += 1
        batches[loop].appendFrames(from: start, to: session)
    }

    // MARK: REST and event streams

    /// The location that an event stream listens to.
    struct StreamRoot {
        var path: Path
        /// As the client gave it, also where it filters nothing: rules may read it.
        var query: Query?
        /// Whether its events are about the children that a query selects.
        var isQuery: Bool
    }

    /// Passes on the result of a REST request; the connection makes the response of it.
    mutating func respond(_ result: RESTCallResult, to session: SessionID) {
        batches[Int(session.loop)].replyCount += 1
        append(.rest(session, result), to: session)
    }

    /// Encodes that a listen is revoked (realtime §5.4).
    /// - Parameter queryText: The query of a filtered listen, as the client spelled it.
    mutating func revoke(_ path: Path, queryText: Text?, _ session: SessionID) {
        append(to: session) { $0.append(listenRevoked: path, queryText: queryText) }
    }

    mutating func send(_ events: [StreamEvent], to session: SessionID) {
        append(.events(session, events), to: session)
    }

    /// Ends an event stream.
    /// - Parameter reason: Nil where there is too much data (rest §8.2).
    mutating func cancelStream(_ session: SessionID, _ reason: Text?) {
        append(.events(session, [.cancel(reason)]), to: session)
    }

    /// What the event streams of one location are sent for one push.
    private enum Streamed {
        case events([StreamEvent])
        case update(StreamUpdate)
        case window(StreamWindow)
    }

    /// Encodes the events of a push for event streams, once for all streams of one location.
    /// - Returns: The push without them, for realtime sessions.
    /// - Complexity: O(recipients), however many locations the push has.
    private mutating func divert(_ push: Push) -> Push {
        var rest = push
        var streamed: [(SessionID, StreamRoot)] = []
        for (index, group) in push.recipients.enumerated() where group.contains(where: { streams[$0] != nil })
        {
            rest.recipients[index] = group.filter { streams[$0] == nil }
            for session in group { if let root = streams[session] { streamed.append((session, root)) } }
        }
        if push.taggedRecipients.contains(where: { streams[$0.session] != nil }) {
            rest.taggedRecipients.removeAll { streams[$0.session] != nil }
            for recipient in push.taggedRecipients {
                if let root = streams[recipient.session] { streamed.append((recipient.session, root)) }
            }
        }
        // Streams of one location come one behind the other.
        var made: (root: StreamRoot, content: Streamed)?
        for (session, root) in streamed {
            let content: Streamed
            if let made, made.root.isQuery == root.isQuery, made.root.path == root.path {
                content = made.content
            } else {
                content = makeContent(of: push, for: root)
                made = (root, content)
            }
            switch content {
            case .events(let events): append(.events(session, events), to: session)
            case .update(let update): append(.update(session, update), to: session)
            case .window(let window): append(.window(session, window), to: session)
            }
        }
        return rest
    }

    private mutating func makeContent(of push: Push, for root: StreamRoot) -> Streamed {
        switch push.body {
        case .overwrite(let path, let node):
            guard let base = push.mergeBase, root.path.contains(base) else {
                return .events([.put(root.path.relative(path), node)])
            }
            return .events(
                StreamEvent.events(merging: [(base.relative(path), node)], at: root.path.relative(base)))
        case .merge(let base, let entries) where entries.count >= StreamUpdate.leastCount:
            return .update(StreamUpdate(entries, at: root.path.relative(base), isQuery: root.isQuery))
        case .merge(let base, let entries):
            return .events(
                StreamEvent.events(
                    merging: entries.map { ($0.path, $0.node) }, at: root.path.relative(base),
                    isQuery: root.isQuery))
        // Streams send no hashes, so all of it is missing.
        case .initial(let state):
            guard let window = state.window, window.entries.count > LiveTree.inlineQueryChildCount else {
                return .events([.put(root.path.relative(state.path), state.window?.node ?? state.node)])
            }
            assert(state.path == root.path, "a stream has one listen")
            return .window(streamWindow(of: window))
        // A reply to hashes, which streams do not send; and a stream has one listen.
        case .rangeMerge, .listens: return .events([])
        }
    }

    /// What streams are sent of a window: the same as other streams hold, where it has not changed since.
    private mutating func streamWindow(of window: Window) -> StreamWindow {
        // It would not be found again, and would take the place of one that is.
        guard let identity = window.identity else { return StreamWindow(window) }
        windows.removeAll { $0.window == nil }
        for kept in windows { if let known = kept.window, known.identity === identity { return known } }
        let made = StreamWindow(window)
        if windows.count == Self.keptWindowCount { windows.removeFirst() }
        windows.append(KeptWindow(window: made))
        return made
    }

    // MARK: Replies without a command

    mutating func reply(_ reply: SessionReply, to session: SessionID) {
        if case .finished = reply { return close(session, .finished) }
        append(to: session) { message in
            switch reply {
            case .ok(let number): message.append(reply: number, .ok)
            case .listeningWithoutIndex(let number): message.append(reply: number, .ok, .noIndex)
            case .authenticated(let number, let variable, let expires):
                message.append(
                    reply: number, .ok,
                    .authenticated(json: variable.map { Array($0.string.utf8) }, expires: expires))
            case .unauthenticated(let number): message.append(reply: number, .ok, .text("unauthenticated"))
            case .authenticationFailed(let number, let isExpired, let reason):
                message.append(
                    reply: number, isExpired ? .expiredToken : .invalidToken, .text(Text("\(reason)")))
            case .authenticationUnavailable(let number, let reason):
                message.append(reply: number, .unavailable, .text(Text("\(reason)")))
            case .finished: break
            case .unknownAction(let number): message.append(reply: number, .error, .text("Unknown action"))
            case .tooBig(let number):
                message.append(
                    reply: number, .tooBig,
                    .text("Data to write exceeds the maximum size that can be pending"))
            case .diskFull(let number):
                message.append(reply: number, .unavailable, .text(Text(RESTError.diskFull.text)))
            case .contested(let number):
                message.append(reply: number, .unavailable, .text(Text(RESTError.contested.text)))
            case .limitExceeded(let number, let limit):
                message.append(reply: number, .unavailable, .text(Text("\(limit.text)")))
            case .invalid(let number, let problem):
                let isSize = problem == .stringTooLong || problem == .tooManyPaths || problem == .tooManyNodes
                message.append(
                    reply: number, isSize ? .tooBig : .invalidData, .text(Text(problem.message)))
            }
        }
    }

    mutating func handshake(_ session: SessionID, milliseconds: Int64, host: Text, publicID: Text) {
        append(to: session) { $0.append(handshake: milliseconds, host: host, sessionID: publicID) }
    }

    mutating func shutdown(_ session: SessionID, reason: Text) {
        append(to: session) { $0.append(shutdown: reason) }
    }

    /// Returns a session's mark: everything before it has its reply.
    mutating func returnWindowMark(to session: SessionID) {
        append(.windowMark(session), to: session)
    }

    /// Sends the connection of a session how many bytes of memory the session takes here.
    mutating func noteHeldBytes(_ byteCount: Int, of session: SessionID) {
        append(.held(session, byteCount: byteCount), to: session)
    }

    mutating func close(_ session: SessionID, _ reason: DisconnectReason) {
        append(.close(session, reason), to: session)
    }

    // MARK: Frames

    private mutating func append(_ item: OutputBatch.Item, to session: SessionID) {
        batches[Int(session.loop)].append(item)
    }

    /// Prints one message for one session.
    private mutating func append(to session: SessionID, _ print: (inout [UInt8]) -> Void) {
        message.removeAll(keepingCapacity: message.capacity <= Self.keptByteCount)
        print(&message)
        batches[Int(session.loop)].replyCount += 1
        sendToOne(session)
    }

    private mutating func sendToOne(_ session: SessionID) {
        let loop = Int(session.loop)
        // Moved out of `self` while its bytes are borrowed.
        let message = exchange(&self.message, with: [])
        defer { self.message = message }
        let start = batches[loop].arena.count
        guard batches[loop].arena.append(framesOf: message.rawSpan) else {
            return disconnect([[session]])
        }
        batches[loop].appendFrames(from: start, to: session)
    }

    private mutating func sendPush(toOne session: SessionID) {
        batches[Int(session.loop)].pushCount += 1
        sendToOne(session)
    }

    private mutating func send(to groups: [ContiguousArray<SessionID>]) {
        if groups.count == 1, groups[0].count == 1 { return sendPush(toOne: groups[0][0]) }
        var frames: [UInt8] = []
        frames.reserveCapacity(message.count + 10)
        guard frames.append(framesOf: message.rawSpan) else { return disconnect(groups) }
        let shared = SharedBytes(frames)
        let compressible =
            message.count >= CompressibleFrames.thresholdByteCount ? CompressibleFrames(shared) : nil
        let recipientCount = groups.reduce(0) { $0 + $1.count }
        if recipientCount > Self.manyRecipientsCount { mayHaveTakenLong = true }
        fannedOutByteCount &+= recipientCount &* shared.count
        for loop in batches.indices {
            batches[loop].sharedByteCount += shared.count
            // Each loop looks at all recipients, and sends to its own.
            batches[loop].recipientCount += recipientCount / batches.count
            for group in groups {
                batches[loop].append(
                    compressible.map { .compressible($0, group) } ?? .shared(shared, group))
            }
        }
    }

    /// Disconnects the recipients of a message that is too long for the protocol. None is expected here: what
    /// could be so long is a ``LargeMessage``.
    private mutating func disconnect(_ groups: [ContiguousArray<SessionID>]) {
        assertionFailure("a message that is too long is no large message")
        for session in groups.joined() { close(session, .finished) }
    }

    /// Has a worker encode a message once, for all of its recipients.
    private mutating func sendLarge(_ content: LargeMessage.Content, to groups: [ContiguousArray<SessionID>])
    {
        let message = LargeMessage(content)
        if let pin = message.pin { pins.append(pin) }
        for session in groups.joined() { append(.large(session, message), to: session) }
    }

    private mutating func sendLarge(_ content: LargeMessage.Content, to session: SessionID) {
        sendLarge(content, to: [[session]])
    }

    /// Bytes that recipients are sent, as far as they are encoded here. Two values between which no batch was
    /// taken out have what was encoded between them as their difference.
    var sentByteCount: Int { batches.reduce(fannedOutByteCount) { $0 &+ $1.arena.count } }

    /// Bytes that were encoded since ``takeBatches(refillingFrom:)``.
    var byteCount: Int { batches.reduce(0) { $0 + $1.byteCount } }
}
