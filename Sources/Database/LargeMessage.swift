import PandoBytes
import PandoEngine
import PandoReactor
import PandoTree
import PandoWebSocket
import PandoWire
import Synchronization

/// A message that takes long to encode, which is left to a worker thread, from a snapshot: a large read, a
/// query over many children, the initial push of a listen with its comparison of hashes, a large push, which
/// all of its listeners share, or the pushes for many listens of one session.
///
/// `@unchecked Sendable`: a worker encodes it before it posts it to a loop; loops only read what was posted.
package final class LargeMessage: @unchecked Sendable {
    package enum Content: Sendable {
        case push(Push.Body, tag: Int64?)
        case reply(Int64, Node)
        /// The children of the node that the query selects.
        case filtered(Int64, Node, IndexedQuery)
        case stale(Int64, CommandResult.CurrentValue)
    }

    /// Printed bytes from which on a message is large: what prints in a tenth of a millisecond, and so what a
    /// burst of small commands takes.
    static let byteCount = 32 << 10
    /// Bytes of a piece, which is handed to a socket as a whole: far below what may be unsent, so that
    /// a message larger than that gets through to a client that takes its output.
    static let pieceByteCount = 128 << 10

    /// The number of the request that it is the reply to; nil for a push.
    package let requestNumber: Int64?
    /// Whether several clients may get it.
    package let isShared: Bool
    private let heldContent: Mutex<Content?>
    /// What is encoded; nil once it is. A message may wait for minutes until its client takes it, and a
    /// snapshot holds all that later writes have replaced, which may be many times the bytes of the message.
    package var content: Content? { heldContent.withLock { $0 } }
    /// Stands for the content where only this client gets it; nil once it is encoded.
    private let heldPin: Mutex<SnapshotPin?>
    var pin: SnapshotPin? { heldPin.withLock { $0 } }
    /// Bytes of memory that the message keeps and the tree has no longer.
    package var keptByteCount: Int { pin?.byteCount ?? 0 }
    /// Whole frames, to be sent one piece after the other, and none where there is nothing to send; nil while
    /// it is not encoded, and where it is larger than clients accept.
    package private(set) var pieces: [SharedBytes]?
    /// The pieces with their messages compressed, by deflate window. A worker makes them for the first
    /// receiver.
    private let compressed = Mutex(InlineArray<3, [SharedBytes]?>(repeating: nil))
    /// The pieces as a script, which a worker makes for the first receiver by long polling.
    private let scripts = Mutex<[SharedBytes]?>(nil)
    /// Limits of bytes that it is known to be above, and not to be above (``isHeavier(than:_:)``).
    private let knownWeight = Mutex<(more: Int, atMost: Int)>((-1, .max))
    /// ``waitingByteCount``; 0 until it is measured.
    private let knownWaitingByteCount = Atomic<Int>(0)
    private var isEncoded = false
    private var budget: EncodingBudget?
    private var encodedByteCount = 0

    package init(_ content: Content) {
        (requestNumber, isShared) =
            switch content {
            case .push(.initial, _), .push(.listens, _): (nil, false)
            case .push: (nil, true)
            case .reply(let number, _), .filtered(let number, _, _), .stale(let number, _): (number, false)
            }
        heldContent = Mutex(content)
        heldPin = Mutex(isShared ? nil : SnapshotPin())
    }

    deinit {
        budget?.release(encodedByteCount)
    }

    /// Bytes of memory that the message holds while it waits, about: those of its value, which may have been
    /// removed from the tree.
    /// - Complexity: For a push, O(``estimateLimit``) for the first receiver that it waits for, then O(1).
    ///   For a reply O(1), since a client may ask for hundreds at once.
    package var waitingByteCount: Int {
        let known = knownWaitingByteCount.load(ordering: .relaxed)
        guard known == 0 else { return known }
        let byteCount = measuredWaitingByteCount
        knownWaitingByteCount.store(byteCount, ordering: .relaxed)
        return byteCount
    }

    private var measuredWaitingByteCount: Int {
        let body: Push.Body
        switch content {
        case .push(let pushed, _): body = pushed
        case .reply(_, let node): return Self.waitingByteCount(ofReplyWith: node)
        case .stale(_, let current): return Self.waitingByteCount(ofReplyWith: current.node)
        // However little the query selects, the snapshot is held.
        case .filtered: return Self.byteCount
        case nil: return Self.leastByteCount
        }
        switch body {
        case .overwrite(_, let node): return node.weight(upTo: Self.estimateLimit)
        case .initial(let state):
            guard let window = state.window else { return Self.estimateLimit }
            var sum = Self.leastByteCount
            for entry in window.entries where sum < Self.estimateLimit {
                sum += Self.windowEntryByteCount + entry.node.weight(upTo: Self.estimateLimit - sum)
            }
            return min(Self.estimateLimit, sum)
        case .merge(_, let entries):
            guard entries.count <= Self.weighedEntryLimit else { return Self.estimateLimit }
            return entries.reduce(Self.leastByteCount) { sum, entry in
                min(Self.estimateLimit, sum + 64 + entry.node.weight(upTo: Self.estimateLimit - sum))
            }
        case .rangeMerge, .listens: return Self.estimateLimit
        }
    }

    /// Only large nodes are left to a worker: the bytes are at least those from which on one is large.
    private static func waitingByteCount(ofReplyWith node: Node) -> Int {
        let estimate =
            switch node.withoutPriority {
            case .object(let children): children.count * childByteCount
            case .string(let text): text.utf8Count
            case .empty, .boolean, .integer, .double, .prioritized: 0
            }
        return min(max(byteCount, estimate), estimateLimit)
    }

    /// Whether it takes longer than printing so many bytes, or than visiting so many children, about. The
    /// answer is kept, since it is asked for each of the message's receivers, also once it is encoded; then
    /// it is false where it was not asked before.
    /// - Complexity: O(`byteLimit`) the first time, at most.
    func isHeavier(than byteLimit: Int, _ childLimit: Int) -> Bool {
        let known = knownWeight.withLock { $0 }
        if byteLimit <= known.more { return true }
        if byteLimit >= known.atMost { return false }
        guard let content else { return false }
        let isHeavier =
            switch content {
            case .push(.initial(let state), _):
                state.window?.isHeavier(than: byteLimit, childLimit)
                    ?? state.node.isHeavier(than: byteLimit)
            case .push(.listens(let changed), _): changed.isHeavier(than: byteLimit, childLimit)
            case .push(let body, _): body.isHeavier(than: byteLimit)
            case .reply(_, let node): node.isHeavier(than: byteLimit)
            case .filtered(_, let node, let query): query.visits(moreThan: childLimit, of: node)
            case .stale(_, let current): current.node.isHeavier(than: byteLimit)
            }
        knownWeight.withLock { weight in
            if isHeavier {
                weight.more = max(weight.more, byteLimit)
            } else {
                weight.atMost = min(weight.atMost, byteLimit)
            }
        }
        return isHeavier
    }

    /// ``pieces`` in the form that a receiver takes. They are compressed where a worker has done that for the
    /// deflate window, and nil where a script is wanted and no worker has made it.
    package func pieces(for form: OutputForm) -> [SharedBytes]? {
        switch form {
        case .frames: pieces
        case .deflated(let window): compressed.withLock { $0[window.index] } ?? pieces
        case .script: scripts.withLock { $0 }
        }
    }

    /// Bytes of the pieces from `piece` on.
    package func byteCount(from piece: Int, for form: OutputForm = .frames) -> Int {
        pieces(for: form)?[piece...].reduce(0) { $0 + $1.count } ?? 0
    }

    /// Whether each piece has whole messages; else all pieces together are one message.
    package var hasWholeMessagesInPieces: Bool {
        if case .push(.listens, _) = content { true } else { false }
    }

    private static let estimateLimit = 256 << 10
    private static let leastByteCount = 256
    private static let windowEntryByteCount = 64
    /// Of a child with a number, with its share of the page: 33 bytes were measured for an array of a
    /// million.
    private static let childByteCount = 32
    /// Entries of a merge that are weighed.
    private static let weighedEntryLimit = 64

    /// Encodes the message as frames, and cuts them into pieces, and lets go of ``content``. The second time
    /// it does nothing. One worker only.
    /// - Parameters:
    ///   - budget: Its bytes are added here, and removed when the message is freed.
    ///   - hashes: What the same worker has hashed before.
    package func encode(within budget: EncodingBudget, _ hashes: inout HashMemo) {
        guard !isEncoded, let content else { return }
        isEncoded = true
        // Freed at the end of this call: behind it nothing but the pieces is needed.
        heldContent.withLock { $0 = nil }
        // The content is freed with this call, too.
        defer { heldPin.withLock { $0 = nil } }
        if case .push(.listens(let changed), _) = content {
            pieces = Self.pieces(of: changed)
        } else {
            let message = Self.printed(content, &hashes)
            pieces = message.isEmpty ? [] : Self.pieces(of: message)
        }
        encodedByteCount = pieces?.reduce(0) { $0 + $1.count } ?? 0
        budget.add(encodedByteCount)
        self.budget = budget
    }

    /// Compresses the pieces for a deflate window, once, each by itself: then there are as many. One worker
    /// only, after ``encode(within:_:)``.
    package func compress(with deflater: MessageDeflater, for window: DeflateWindow) {
        guard let pieces, !pieces.isEmpty, let budget, compressed.withLock({ $0[window.index] }) == nil else {
            return
        }
        let compressedPieces = pieces.map { piece in
            var frames: [UInt8] = []
            deflater.append(compressing: piece.rawSpan, to: &frames)
            return SharedBytes(frames)
        }
        let byteCount = compressedPieces.reduce(0) { $0 + $1.count }
        encodedByteCount += byteCount
        budget.add(byteCount)
        compressed.withLock { $0[window.index] = compressedPieces }
    }

    /// Makes the pieces' script form, once: as many pieces. One worker only, after ``encode(within:_:)``.
    package func makeScript() {
        guard let pieces, let budget, scripts.withLock({ $0 }) == nil else { return }
        let made = ScriptWriter.scripts(of: pieces)
        let byteCount = made.reduce(0) { $0 + $1.count }
        encodedByteCount += byteCount
        budget.add(byteCount)
        scripts.withLock { $0 = made }
    }

    /// The message as JSON; empty where there is nothing to send.
    private static func printed(_ content: Content, _ hashes: inout HashMemo) -> [UInt8] {
        var message: [UInt8] = []
        switch content {
        case .push(.initial(let state), let tag):
            let hash = state.comparesSimpleHash ? hashes.hash(of: state.node) : nil
            guard let body = state.body(knowing: hash) else { break }
            message.append(pushHead: body)
            message.append(pushTail: tag)
        case .push(let body, let tag):
            message.append(pushHead: body)
            message.append(pushTail: tag)
        case .reply(let number, let node): message.append(reply: number, .ok, .node(node))
        case .filtered(let number, let node, let query):
            message.append(reply: number, .ok, .node(query.result(over: node)))
        case .stale(let number, let current): message.append(staleReply: number, current)
        }
        return message
    }

    /// A message for each listen that differs.
    private static func pieces(of changed: ChangedListens) -> [SharedBytes]? {
        var (message, frames, pieces): ([UInt8], [UInt8], [SharedBytes]) = ([], [], [])
        var isTooBig = false
        changed.forEach { path, node in
            guard !isTooBig else { return }
            message.removeAll(keepingCapacity: true)
            message.append(pushHead: .overwrite(path, node))
            message.append(pushTail: nil)
            isTooBig = !frames.append(framesOf: message.rawSpan)
            guard frames.count >= pieceByteCount else { return }
            pieces.append(SharedBytes(frames))
            frames.removeAll(keepingCapacity: true)
        }
        if !frames.isEmpty { pieces.append(SharedBytes(frames)) }
        return isTooBig ? nil : pieces
    }

    /// Whole frames only: a pong may be sent between two pieces.
    private static func pieces(of message: [UInt8]) -> [SharedBytes]? {
        var frames: [UInt8] = []
        guard case .chunks(let ranges) = Segmenter.split(message.rawSpan) else {
            guard frames.append(framesOf: message.rawSpan) else { return nil }
            return [SharedBytes(frames)]
        }
        var pieces: [SharedBytes] = []
        frames.append(countFrame: ranges.count)
        for range in ranges {
            frames.append(frame: .text, payload: message.rawSpan.extracting(range))
            guard frames.count >= pieceByteCount else { continue }
            pieces.append(SharedBytes(frames))
            frames.removeAll(keepingCapacity: true)
        }
        if !frames.isEmpty { pieces.append(SharedBytes(frames)) }
        return pieces
    }
}

/// Bytes of encoded large messages that were not sent yet. Over the limit no more are encoded, so that
/// clients that do not read cannot fill memory with what they request.
package final class EncodingBudget: Sendable {
    private let byteLimit: Int
    private let byteCount = Atomic<Int>(0)
    /// Wake the threads that encode.
    private let wakeups: [WakeupEvent]

    package init(byteLimit: Int, signalling wakeups: WakeupEvent...) {
        self.byteLimit = byteLimit
        self.wakeups = wakeups
    }

    var isExhausted: Bool { byteCount.load(ordering: .relaxed) >= byteLimit }

    package func add(_ bytes: Int) {
        byteCount.add(bytes, ordering: .relaxed)
    }

    package func release(_ bytes: Int) {
        let left = byteCount.subtract(bytes, ordering: .relaxed).newValue
        precondition(left >= 0, "more bytes were released than added")
        // Threads wait only while the budget is exhausted.
        guard left < byteLimit, left + bytes >= byteLimit else { return }
        for wakeup in wakeups { wakeup.signal() }
    }
}

extension Window {
    /// Whether it has more children than `childLimit`, or prints to more bytes than `byteLimit`, about.
    /// O(`byteLimit`).
    func isHeavier(than byteLimit: Int, _ childLimit: Int) -> Bool {
        var left = byteLimit
        return entries.count > childLimit || entries.contains { $0.node.weigh(&left) }
    }
}

extension Push.Body {
    /// Whether it prints to more bytes than `byteLimit`, about. O(`byteLimit`).
    func isHeavier(than byteLimit: Int) -> Bool {
        switch self {
        case .overwrite(_, let node): node.isHeavier(than: byteLimit)
        case .merge(_, let entries): isHeavy(entries, byteLimit)
        case .rangeMerge, .initial, .listens: true
        }
    }

    private func isHeavy(_ entries: [Push.Entry], _ byteLimit: Int) -> Bool {
        var left = byteLimit
        for entry in entries {
            left -= entry.path.keys.reduce(4) { $0 + $1.text.utf8Count + 1 }
            if left < 0 || entry.node.weigh(&left) { return true }
        }
        return false
    }
}
