import PandoBytes

/// The messages that a long-polling session has to send, in Base64 and cut into segments that fit a URL
/// (realtime §1.5.2).
package struct PollSegments {
    /// Most characters of one segment.
    package static let pieceByteLimit = 1840
    /// Most characters of data in one URL, headers of segments included.
    package static let urlByteLimit = 1870
    /// The characters that are allowed for the header of a segment.
    package static let headerByteCount = 30

    private struct Segment {
        let number: Int
        /// Segments of its message.
        let count: Int
        let piece: ArraySlice<UInt8>
    }

    /// Those before ``taken`` have been sent.
    private var segments: [Segment] = []
    private var taken = 0
    private var nextNumber = 0

    package init() {}

    package var isEmpty: Bool { taken == segments.count }

    /// Adds a message at the end of the queue.
    package mutating func append(_ message: RawSpan) {
        var text: [UInt8] = []
        text.reserveCapacity((message.byteCount + 2) / 3 * 4)
        text.append(base64: message, alphabet: .urlSafe)
        // The padding is a dot, which needs no escape in a URL.
        while text.count % 4 != 0 { text.append(UInt8(ascii: ".")) }
        let count = max(1, (text.count + Self.pieceByteLimit - 1) / Self.pieceByteLimit)
        for index in 0..<count {
            let start = index * Self.pieceByteLimit
            let piece = text[start..<min(text.count, start + Self.pieceByteLimit)]
            segments.append(Segment(number: nextNumber, count: count, piece: piece))
            nextNumber += 1
        }
    }

    /// Removes as many segments from the front as one URL may have, and appends `&seg0=…&ts0=…&d0=…` for
    /// them.
    package mutating func appendURLData(to output: inout [UInt8]) {
        let start = output.count
        var index: UInt64 = 0
        while taken < segments.count {
            let segment = segments[taken]
            let byteCount = output.count - start
            guard segment.piece.count + Self.headerByteCount + byteCount <= Self.urlByteLimit else { break }
            func append(_ name: StaticString, _ value: Int) {
                output.append(name)
                output.append(decimal: index)
                output.append("=")
                output.append(decimal: UInt64(value))
            }
            append("&seg", segment.number)
            append("&ts", segment.count)
            output.append("&d")
            output.append(decimal: index)
            output.append("=")
            output.append(contentsOf: segment.piece)
            taken += 1
            index += 1
        }
        guard isEmpty else { return }
        segments.removeAll(keepingCapacity: true)
        taken = 0
    }
}
