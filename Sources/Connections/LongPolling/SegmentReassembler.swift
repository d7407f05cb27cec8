import PandoBytes

// A client's messages by long polling (realtime §1.5.2): JSON in Base64, cut into pieces that are
// counted over the whole session. Requests overtake each other, so pieces come in any order, and some twice:
//
//     seg   0      1      2      3           4
//           ├ ts 1 ┤├──── ts 3 ──────────┤   ├ ts 1 …
//           message  message: 1 ‖ 2 ‖ 3, decoded once

/// Puts segments in order and messages together, and decodes each segment as it is put in its place. Holds
/// memory only for what is not complete.
package struct SegmentReassembler {
    /// What a client did wrong; its session ends.
    package enum Violation: Error, Equatable {
        /// So far ahead of what is missing that no overtaking explains it.
        case tooFarAhead
        /// Segments of one message say that it has different numbers of them.
        case inconsistentTotal
        case messageTooBig
        case malformedBase64
        case emptyMessage
    }

    /// Segments that may have overtaken a missing one. Two requests are under way at a time, each with at
    /// most 62.
    package static let aheadLimit = 256

    /// Beside its text, a segment that waits: its array's head, and its place in a table that doubles.
    /// Measured: 113 to 136 bytes where 16 to 256 wait.
    static let aheadOverhead = 136

    private let messageByteLimit: Int
    private let textByteLimit: Int
    /// The next segment to be put in its place.
    private var next = 0
    private var ahead: [Int: LongPollingRequest.Segment] = [:]
    private var aheadByteCount = 0
    /// Of the message that is not complete: what is decoded, and up to three digits whose group is not.
    private var message: [UInt8] = []
    private var carry: [UInt8] = []
    /// The padding has come: no digit may follow.
    private var isPadded = false
    private var total = 0
    private var gathered = 0

    /// - Parameter messageByteLimit: Bytes of one message, decoded.
    package init(messageByteLimit: Int) {
        self.messageByteLimit = messageByteLimit
        textByteLimit = (messageByteLimit + 2) / 3 * 4
    }

    /// Bytes held.
    package var byteCount: Int {
        message.count + carry.count + aheadByteCount + ahead.count * Self.aheadOverhead
    }

    /// Takes a segment, and appends the messages that it completes.
    /// - Throws: ``Violation``; the reassembler is then of no further use.
    package mutating func accept(
        _ segment: LongPollingRequest.Segment, into messages: inout [[UInt8]]
    ) throws(Violation) {
        // One that came before: its request was sent again.
        guard segment.number >= next, ahead[segment.number] == nil else { return }
        guard segment.number - next <= Self.aheadLimit else { throw .tooFarAhead }
        guard segment.number == next else {
            aheadByteCount += segment.text.count
            guard message.count + aheadByteCount <= textByteLimit else { throw .messageTooBig }
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
        next += 1
        gathered += 1
        try decode(segment.text)
        guard gathered == total else { return }
        guard carry.isEmpty else { throw .malformedBase64 }
        guard !message.isEmpty else { throw .emptyMessage }
        messages.append(message)
        message = []
        isPadded = false
        gathered = 0
    }

    /// Base64 with `-` and `_`, padded with `.` (§1.5.2); nothing else. Appends the groups of four digits
    /// that are whole.
    private mutating func decode(_ text: [UInt8]) throws(Violation) {
        guard !text.isEmpty else { return }
        guard !isPadded, !text.contains(UInt8(ascii: "=")) else { throw .malformedBase64 }
        carry += text
        let count = carry.count & ~3
        var groups = Array(carry[..<count])
        carry.removeFirst(count)
        var index = count
        while index > 0, count - index < 2, groups[index - 1] == UInt8(ascii: ".") {
            index -= 1
            groups[index] = UInt8(ascii: "=")
        }
        isPadded = index < count
        guard !isPadded || carry.isEmpty, let bytes = decodeBase64(groups.rawSpan, alphabet: .urlSafe) else {
            throw .malformedBase64
        }
        guard bytes.count <= messageByteLimit - message.count else { throw .messageTooBig }
        message += bytes
    }
}
