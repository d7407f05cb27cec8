import PandoBytes
import PandoEngine
import PandoReactor
import PandoTree
import PandoWebSocket
import PandoWire
import Synchronization

/// A message whose printing is left to the encoding thread, on a snapshot: a large read, or a large push, which all
/// of its listeners share.
///
/// `@unchecked Sendable`: the encoding thread fills it before it tells a loop; loops only read what it was told of.
final class LargeMessage: @unchecked Sendable {
    enum Content: Sendable {
        case push(Push.Body, tag: Int64?)
        case response(Int64, Node)
        case stale(Int64, Reply.CurrentValue)
    }

    /// Printed bytes from which on a message is large: what prints in a tenth of a millisecond, and so what a burst of
    /// small commands takes.
    static let byteCount = 32 << 10
    /// Bytes handed to a socket at once: far below what a client may leave unread
    /// (``Configuration/outboundByteLimit``), so that a message larger than that gets through to a client that reads.
    static let pieceByteCount = 512 << 10

    let content: Content
    /// Whole frames, to be sent one piece after the other; nil while it is not encoded, and when it is larger than
    /// clients can take.
    private(set) var pieces: [SharedBytes]?
    private var isEncoded = false
    private var budget: EncodingBudget?
    private var encodedByteCount = 0

    init(_ content: Content) {
        self.content = content
    }

    deinit {
        budget?.release(encodedByteCount)
    }

    /// The request that waits for it, when it is an answer.
    var requestNumber: Int64? {
        switch content {
        case .push: nil
        case .response(let number, _), .stale(let number, _): number
        }
    }

    /// A lower bound of what the message prints to, exact for few large strings: found by a walk that stops at
    /// ``estimateLimit``.
    var estimatedByteCount: Int {
        switch content {
        case .push(.overwrite(_, let node), _), .response(_, let node): node.weight(upTo: Self.estimateLimit)
        case .stale(_, let current): current.node.weight(upTo: Self.estimateLimit)
        case .push: Self.estimateLimit
        }
    }

    private static let estimateLimit = 256 << 10

    /// The encoding thread only: prints, frames and cuts the message, the first time.
    func encode(within budget: EncodingBudget) {
        guard !isEncoded else { return }
        isEncoded = true
        var message: [UInt8] = []
        switch content {
        case .push(let body, let tag):
            message.append(pushHead: body)
            message.append(pushTail: tag)
        case .response(let number, let node): message.append(response: number, .ok, .node(node))
        case .stale(let number, let current): message.append(staleResponse: number, current)
        }
        pieces = Self.pieces(of: message)
        encodedByteCount = pieces?.reduce(0) { $0 + $1.count } ?? 0
        budget.take(encodedByteCount)
        self.budget = budget
    }

    /// Whole frames only: a ping may be answered between two pieces.
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

/// Bytes of encoded large messages that clients have not taken yet. Over the limit the encoding thread waits, so that
/// clients who do not read cannot fill memory with what they asked for.
final class EncodingBudget: Sendable {
    /// A few answers of the largest size there is (wire-protocol §14: 163 million units).
    static let byteLimit = 512 << 20

    private let byteCount = Atomic<Int>(0)
    /// Wakes the encoding thread.
    private let bell: Bell

    init(ringing bell: Bell) {
        self.bell = bell
    }

    var isExhausted: Bool { byteCount.load(ordering: .relaxed) >= Self.byteLimit }

    func take(_ bytes: Int) {
        byteCount.add(bytes, ordering: .relaxed)
    }

    func release(_ bytes: Int) {
        byteCount.subtract(bytes, ordering: .relaxed)
        bell.ring()
    }
}

extension Push.Body {
    /// True when printing it would hold up the database thread.
    func isHeavier(than byteLimit: Int) -> Bool {
        switch self {
        case .overwrite(_, let node): node.isHeavier(than: byteLimit)
        case .merge(_, let entries): isHeavy(entries, byteLimit)
        case .rangeMerge: true
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
