import PandoBytes

// Writing frames (RFC 6455 §5.2) into a growing buffer. A server passes no masking key; a client passes a new
// one for each frame, from a strong source of randomness (RFC 6455 §5.3), which this module does not have.

extension [UInt8] {
    /// Appends a frame's header. If there is a masking key, the payload that follows must be masked already.
    /// - Parameter isCompressed: Whether this is the first frame of a compressed message (RFC 7692 §6).
    package mutating func append(
        frameHeader opcode: Opcode, payloadByteCount count: Int, isFinal: Bool = true,
        isCompressed: Bool = false, maskingKey: UInt32? = nil
    ) {
        let maskBit: UInt8 = maskingKey == nil ? 0 : 0x80
        append(opcode.rawValue | (isFinal ? 0x80 : 0) | (isCompressed ? FrameHeader.compressedBit : 0))
        if count < 126 {
            append(UInt8(truncatingIfNeeded: count) | maskBit)
        } else if count <= 0xFFFF {
            append(126 | maskBit)
            append(littleEndian: UInt16(truncatingIfNeeded: count).byteSwapped)
        } else {
            append(127 | maskBit)
            append(littleEndian: UInt64(count).byteSwapped)
        }
        // In memory order, as ``applyMask(_:key:)`` uses it.
        if let maskingKey { append(littleEndian: maskingKey) }
    }

    /// Appends a complete frame. O(payload).
    /// - Parameter isCompressed: Whether this is the first frame of a compressed message (RFC 7692 §6).
    package mutating func append(
        frame opcode: Opcode, payload: RawSpan, isFinal: Bool = true, isCompressed: Bool = false,
        maskingKey: UInt32? = nil
    ) {
        append(
            frameHeader: opcode, payloadByteCount: payload.byteCount, isFinal: isFinal,
            isCompressed: isCompressed, maskingKey: maskingKey)
        let start = count
        append(payload)
        if let maskingKey { applyMask(from: start, key: maskingKey) }
    }

    /// Appends a close frame.
    /// - Parameters:
    ///   - code: nil for an empty frame.
    ///   - reason: Text of this program; cut between characters to what fits a control frame.
    package mutating func append(closeFrame code: CloseCode?, reason: String = "", maskingKey: UInt32? = nil)
    {
        guard let code else {
            append(frameHeader: .close, payloadByteCount: 0, maskingKey: maskingKey)
            return
        }
        var payload = [
            UInt8(truncatingIfNeeded: code.rawValue >> 8), UInt8(truncatingIfNeeded: code.rawValue),
        ]
        for character in reason.unicodeScalars {
            guard payload.count + UTF8.width(character) <= FrameHeader.controlByteLimit else { break }
            payload.append(contentsOf: Character(character).utf8)
        }
        append(frame: .close, payload: payload.rawSpan, maskingKey: maskingKey)
    }

    private mutating func applyMask(from start: Int, key: UInt32) {
        unsafe withUnsafeMutableBytes { buffer in
            // In bounds: `start` is at most the count, and an array's buffer holds exactly that.
            guard let base = buffer.baseAddress else { return }
            _ = unsafe PandoWebSocket.applyMask(base + start, count: buffer.count - start, key: key)
        }
    }
}

extension ByteWriter {
    /// Bytes of the header that ``append(shortFrame:_:)`` writes.
    package static var shortFrameHeaderByteCount: Int { 2 }

    /// Appends an unmasked final frame with the payload that `body` writes: at most 125 bytes. Traps for
    /// more.
    @inline(__always)
    package mutating func append(shortFrame opcode: Opcode, _ body: (inout ByteWriter) -> Void) {
        append(opcode.rawValue | 0x80)
        append(0)
        let start = count
        body(&self)
        precondition(count - start < 126, "not a short frame")
        replace(UInt8(truncatingIfNeeded: count - start), at: start - 1)
    }
}
