import PandoBytes
import PandoConnections
import PandoHTTP
import PandoWire

// MARK: - Messages in frames

//  input    repetitions (1) │ a message, or payloads of frames with zeros between them

/// Most bytes of the messages that are put together.
private let messageByteLimit = 1 << 20

/// A message that is cut into frames is the same when it is put together (realtime §2.1); any payloads of
/// frames give messages within the limits, or a violation.
@Sendable func checkSegmenter(_ input: [UInt8]) throws {
    var reader = InputReader(input)
    let count = 1 + reader.byte()
    let bytes = reader.remainder()
    try checkRoundTrip(Array(repeating: bytes, count: count).flatMap { $0 })
    var reassembler = Reassembler(chunkLimit: 64, messageByteLimit: messageByteLimit)
    for payload in bytes.split(separator: 0, omittingEmptySubsequences: false) {
        for _ in 0..<count {
            let event: Reassembler.Event
            do throws(ReassemblyViolation) {
                event = try reassembler.accept(Array(payload).rawSpan)
            } catch {
                return
            }
            guard case .assembled(let message) = event else { continue }
            try require(message.count <= messageByteLimit, "beyond the limit")
        }
    }
    try require(reassembler.byteCount <= messageByteLimit, "more is kept than a message may have")
}

private func checkRoundTrip(_ message: [UInt8]) throws {
    // As clients send them: an object of valid UTF-8.
    let text =
        Array("{\"d\":\"".utf8) + Array(String(decoding: message, as: UTF8.self).utf8) + Array("\"}".utf8)
    guard case .chunks(let ranges) = Segmenter.split(text.rawSpan) else { return }
    try require(
        ranges.first?.lowerBound == 0 && ranges.last?.upperBound == text.count, "something is left out")
    try require(zip(ranges, ranges.dropFirst()).allSatisfy { $0.upperBound == $1.lowerBound }, "a gap")
    var reassembler = Reassembler()
    var isSame = false
    do throws(ReassemblyViolation) {
        _ = try reassembler.accept(Array(String(ranges.count).utf8).rawSpan)
        for (index, range) in ranges.enumerated() {
            let chunk = Array(text[range])
            let event = try reassembler.accept(chunk.rawSpan)
            isSame = index == ranges.count - 1 ? event == .assembled(text) : event == .nothing
            guard isSame else { break }
        }
    } catch {
        throw FuzzFailure(description: "\(text.count) bytes in \(ranges.count) chunks: \(error)")
    }
    try require(isSame, "\(text.count) bytes in \(ranges.count) chunks are another message")
}

// MARK: - Long polling

//  input    queries of polls, with zeros between them

/// Requests of long polling and their segments (realtime §1.5): messages within the limit, or a violation;
/// what is kept is bounded.
@Sendable func checkPolling(_ input: [UInt8]) throws {
    let limit = 1 << 16
    var reassembler = SegmentReassembler(messageByteLimit: limit)
    for text in input.split(separator: 0) {
        let query = QueryString(text, plusIsSpace: false)
        _ = try? LongPollingRequest(query)
        guard let segments = try? LongPollingRequest.segments(query) else { continue }
        try require(segments.count <= LongPollingRequest.segmentLimit, "too many segments")
        for segment in segments {
            var messages: [[UInt8]] = []
            do throws(SegmentReassembler.Violation) {
                try reassembler.accept(segment, into: &messages)
            } catch {
                return
            }
            try require(messages.allSatisfy { !$0.isEmpty && $0.count <= limit + 3 }, "beyond the limit")
            // As Base64 it is a third longer.
            try require(reassembler.byteCount <= limit * 2 + 8, "\(reassembler.byteCount) bytes are kept")
        }
    }
}
