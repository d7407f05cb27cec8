import PandoBytes
import PandoCompression

/// The deflate windows for which frames of several receivers are compressed. A receiver whose window is
/// between two of them gets frames for the smaller one, which it can read, so that a message is compressed
/// three times at most, whatever clients ask for.
package enum DeflateWindow: UInt8, CaseIterable, Sendable {
    /// What RFC 7692 §7.1.2.1 allows at least.
    case small = 8
    /// What the Python library `websockets` asks for.
    case medium = 12
    /// What browsers leave to the server.
    case large = 15

    /// The largest that a receiver with a window of 2^`bits` bytes can read.
    package init(windowBits bits: Int) {
        self = Self.allCases.last { Int($0.rawValue) <= bits } ?? .small
    }

    /// The place in an array with one element for each window.
    package var index: Int {
        switch self {
        case .small: 0
        case .medium: 1
        case .large: 2
        }
    }

    /// How many there are.
    package static var count: Int { 3 }
}

extension MessageDeflater {
    /// Appends frames, with the messages among them compressed that are long enough and become shorter.
    /// Without context takeover the result depends on the frames alone.
    /// - Parameter frames: Whole frames of a server, as `append(frame:payload:)` writes them.
    /// - Complexity: O(frames): about 10 ns a byte of JSON that is compressed.
    package func append(compressing frames: RawSpan, to output: inout [UInt8]) {
        var budget = CompressedByteBudget.unlimited
        append(compressing: frames, within: &budget, to: &output)
    }

    /// As ``append(compressing:to:)``. Messages for which the budget does not suffice stay as they are.
    package func append(
        compressing frames: RawSpan, within budget: inout CompressedByteBudget, to output: inout [UInt8]
    ) {
        var offset = 0
        while let frame = ServerFrame(in: frames, at: offset) {
            if frame.isWholeMessage, compresses(byteCount: frame.payload.count),
                budget.spend(frame.payload.count)
            {
                append(message: frame.opcode, payload: frames.extracting(frame.payload), to: &output)
            } else {
                output.append(frames.extracting(offset..<frame.payload.upperBound))
            }
            offset = frame.payload.upperBound
        }
        // Nothing, where the frames are whole.
        output.append(frames.extracting(offset..<frames.byteCount))
    }
}

/// How many bytes of messages may still be compressed. zlib takes about 10 ns for each.
package struct CompressedByteBudget: Equatable, Sendable {
    /// Bytes of messages, before compression.
    package private(set) var byteCount: Int

    package init(byteCount: Int) {
        self.byteCount = byteCount
    }

    /// No bound.
    package static let unlimited = CompressedByteBudget(byteCount: .max)

    /// Takes a message out of the budget.
    /// - Returns: false, and takes nothing, where it does not suffice for the whole message.
    package mutating func spend(_ messageByteCount: Int) -> Bool {
        guard messageByteCount <= byteCount else { return false }
        byteCount -= messageByteCount
        return true
    }
}

/// A frame of this side among others: what it was written with.
private struct ServerFrame {
    let opcode: Opcode
    let payload: Range<Int>
    /// Not compressed, not a fragment, and no control frame.
    let isWholeMessage: Bool

    /// - Returns: nil where no whole frame follows.
    init?(in frames: RawSpan, at offset: Int) {
        guard frames.byteCount - offset >= 2 else { return nil }
        // In bounds: `unsafeLoad` checks the offset.
        func byte(_ index: Int) -> UInt8 {
            unsafe frames.unsafeLoad(fromByteOffset: offset + index, as: UInt8.self)
        }
        let first = byte(0)
        let second = byte(1)
        let headerByteCount = FrameHeader.byteCount(second: second)
        guard let opcode = Opcode(rawValue: first & 0x0F), frames.byteCount - offset >= headerByteCount else {
            return nil
        }
        var length = UInt64(second & 0x7F)
        if headerByteCount > 2 {
            length = (2..<headerByteCount).reduce(0) { $0 << 8 | UInt64(byte($1)) }
        }
        let start = offset + headerByteCount
        guard length <= UInt64(frames.byteCount - start) else { return nil }
        self.opcode = opcode
        payload = start..<start + Int(length)
        isWholeMessage = first & 0xF0 == 0x80 && !opcode.isControl
    }
}
