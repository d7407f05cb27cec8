import PandoBytes

// Writing frames (RFC 6455 §5.2) into a growing buffer. A server passes no masking key; a client passes a
// fresh one per frame, from a strong source of randomness (RFC 6455 §5.3), which this room does not have.

extension [UInt8] {
    /// Appends a frame's header. A masked payload must follow it already masked.
    package mutating func append(
        frameHeader opcode: Opcode, payloadByteCount count: Int, isFinal: Bool = true,
        maskingKey: UInt32? = nil
    ) {
        let maskBit: UInt8 = maskingKey == nil ? 0 : 0x80
        append(opcode.rawValue | (isFinal ? 0x80 : 0))
        if count < 126 {
            append(UInt8(truncatingIfNeeded: count) | maskBit)
        } else if count <= 0xFFFF {
            append(126 | maskBit)
            append(littleEndian: UInt16(truncatingIfNeeded: count).byteSwapped)
        } else {
            append(127 | maskBit)
            append(littleEndian: UInt64(count).byteSwapped)
        }
        // In memory order, as ``applyMask(_:key:)`` takes it.
        if let maskingKey { append(littleEndian: maskingKey) }
    }

    /// Appends a whole frame.
    package mutating func append(
        frame opcode: Opcode, payload: RawSpan, isFinal: Bool = true, maskingKey: UInt32? = nil
    ) {
        append(
            frameHeader: opcode, payloadByteCount: payload.byteCount, isFinal: isFinal, maskingKey: maskingKey
        )
        let start = count
        append(payload)
        if let maskingKey { applyMask(from: start, key: maskingKey) }
    }

    /// Appends a close frame. Without a code the frame is empty. `reason` is the program's own text; what
    /// does not fit a control frame is cut between characters.
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

    /// Leaves room for a header, for a payload that is about to be appended and whose length is not known
    /// yet.
    ///
    /// The room fits payloads of 126…65 535 bytes; ``finishFrame(_:opcode:isFinal:maskingKey:)`` moves
    /// others.
    /// - Returns: The mark to finish the frame with.
    package mutating func beginFrame() -> Int {
        append(0)
        append(0)
        append(0)
        append(0)
        return count
    }

    /// Makes a frame of everything appended since ``beginFrame()`` gave `mark`.
    /// - Complexity: O(1) for an unmasked payload of 126…65 535 bytes, else one move of the payload.
    package mutating func finishFrame(
        _ mark: Int, opcode: Opcode, isFinal: Bool = true, maskingKey: UInt32? = nil
    ) {
        precondition(mark >= 4 && mark <= count, "not a mark of beginFrame()")
        let payloadByteCount = count - mark
        var header: [UInt8] = []
        if maskingKey == nil, payloadByteCount >= 126, payloadByteCount <= 0xFFFF {
            self[mark - 4] = opcode.rawValue | (isFinal ? 0x80 : 0)
            self[mark - 3] = 126
            self[mark - 2] = UInt8(truncatingIfNeeded: payloadByteCount >> 8)
            self[mark - 1] = UInt8(truncatingIfNeeded: payloadByteCount)
            return
        }
        header.append(
            frameHeader: opcode, payloadByteCount: payloadByteCount, isFinal: isFinal, maskingKey: maskingKey)
        replaceSubrange((mark - 4)..<mark, with: header)
        if let maskingKey { applyMask(from: mark - 4 + header.count, key: maskingKey) }
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

    /// Appends an unmasked frame of what `body` writes: at most 125 bytes.
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
