import PandoBytes

// A client's messages by long polling (wire-protocol §1.5.2): JSON in Base64, cut into pieces that are counted over the whole
// session. Requests overtake each other, so pieces come in any order, and some twice:
//
//     seg   0      1      2      3           4
//           ├ ts 1 ┤├──── ts 3 ──────────┤   ├ ts 1 …
//           message  message: 1 ‖ 2 ‖ 3, decoded once

/// Puts segments in order and messages together. Holds memory only for what is not complete.
struct SegmentReassembler {
    /// What a client did wrong; its session ends.
    enum Violation: Error, Equatable {
        /// So far ahead of what is missing that no overtaking explains it.
        case tooFarAhead
        /// Segments of one message say that it has different numbers of them.
        case inconsistentTotal
        case messageTooBig
        case malformedBase64
    }

    /// Segments that may have overtaken a missing one. Two requests are under way at a time, each with at most 62.
    static let aheadLimit = 256

    private let textByteLimit: Int
    /// The next segment to be put in its place.
    private var next = 0
    private var ahead: [Int: LongPollingRequest.Segment] = [:]
    private var aheadByteCount = 0
    /// Of the message that is not complete.
    private var text: [UInt8] = []
    private var total = 0
    private var gathered = 0

    /// - Parameter messageByteLimit: Bytes of one message, decoded.
    init(messageByteLimit: Int) {
        textByteLimit = (messageByteLimit + 2) / 3 * 4
    }

    /// Bytes held.
    var byteCount: Int { text.count + aheadByteCount }

    /// Takes a segment, and appends the messages that it completes.
    /// - Throws: ``Violation``; the reassembler is then of no further use.
    mutating func accept(
        _ segment: LongPollingRequest.Segment, into messages: inout [[UInt8]]
    ) throws(Violation) {
        // One that came before: its request was sent again.
        guard segment.number >= next, ahead[segment.number] == nil else { return }
        guard segment.number - next <= Self.aheadLimit else { throw .tooFarAhead }
        guard segment.number == next else {
            aheadByteCount += segment.text.count
            guard byteCount <= textByteLimit else { throw .messageTooBig }
            ahead[segment.number] = segment
            return
        }
        try place(segment, into: &messages)
        while let following = ahead.removeValue(forKey: next) {
            aheadByteCount -= following.text.count
            try place(following, into: &messages)
        }
    }

    private mutating func place(
        _ segment: LongPollingRequest.Segment, into messages: inout [[UInt8]]
    ) throws(Violation) {
        if gathered == 0 { total = segment.total }
        guard segment.total == total else { throw .inconsistentTotal }
        guard segment.text.count <= textByteLimit - text.count else { throw .messageTooBig }
        next += 1
        gathered += 1
        text += segment.text
        guard gathered == total else { return }
        messages.append(try Self.decode(text))
        gathered = 0
        // Of a large message no room is kept.
        text.removeAll(keepingCapacity: text.capacity <= Self.keptByteCount)
    }

    private static let keptByteCount = 4 << 10

    /// Base64 with `-` and `_`, padded with `.` (§1.5.2); nothing else.
    private static func decode(_ text: [UInt8]) throws(Violation) -> [UInt8] {
        var text = text
        guard text.count % 4 == 0, !text.contains(UInt8(ascii: "=")) else { throw .malformedBase64 }
        var index = text.count
        while index > 0, text.count - index < 2, text[index - 1] == UInt8(ascii: ".") {
            index -= 1
            text[index] = UInt8(ascii: "=")
        }
        guard let message = decodeBase64(text.rawSpan, alphabet: .urlSafe) else { throw .malformedBase64 }
        return message
    }
}
