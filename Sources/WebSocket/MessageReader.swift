import PandoBytes

/// Where the payload of an event is: in the input that was passed to ``MessageReader/next(_:from:)``, or in
/// the reader's own memory. Valid until the next call of `next`; ``MessageReader/withBytes(of:in:_:)`` gives
/// the bytes.
@usableFromInline
package struct Payload: Equatable, Sendable {
    @usableFromInline package let range: Range<Int>
    /// Whether `range` is one of the input: then nothing was copied.
    @usableFromInline package let isInInput: Bool

    package init(range: Range<Int>, isInInput: Bool) {
        self.range = range
        self.isInInput = isInInput
    }

    /// Bytes of the payload.
    package var count: Int { range.count }
}

/// A message or control frame that was received.
package enum Event: Equatable, Sendable {
    /// A complete text message; checked to be UTF-8 if the reader was made so.
    case text(Payload)
    /// A complete binary message.
    case binary(Payload)
    /// A complete message that the inflater has left to the caller, still compressed: it becomes longer than
    /// ``MessageInflater/deferredByteCount``. It was not checked.
    case compressed(isText: Bool, Payload)
    case ping(Payload)
    case pong(Payload)
    /// The last event. The code is nil when the frame had none; the reason is UTF-8.
    case close(CloseCode?, reason: Payload)
}

/// Turns a stream of frames into messages and control frames (RFC 6455 §5, §6.2), in place.
///
/// The event loop has one receive buffer and passes its contents as the input after each read. A frame that
/// is completely in the input is unmasked there, and its event refers to it: no copy, no allocation, no
/// reference counting. A frame or message that is incomplete at the end of the input is copied to ``owned``,
/// which is freed when its message was handled.
///
/// A compressed message (RFC 7692) is inflated when it is complete; its event refers to ``owned``.
///
/// An idle reader is 64 bytes and owns no memory, the inflater not counted.
@usableFromInline
package struct MessageReader {
    private enum Phase: UInt8 {
        /// Between frames, or inside a header whose beginning is in ``header``.
        case header
        /// Inside a payload.
        case payload
        /// After a close frame or a violation. Terminal: further bytes are dropped (RFC 6455 §1.4, §7.1.7).
        case ended
    }

    /// Which part of ``owned`` the last event refers to; the next call removes it.
    private enum LastEvent: UInt8 {
        case nothing, message, inflated, control
    }

    /// The received fragments of the open message, then the ``controlCount`` received bytes of an incomplete
    /// control frame. Grows with what was received, never by an announced length.
    @usableFromInline internal private(set) var owned: [UInt8] = []
    /// Bytes of the current frame's payload that were not received yet.
    private var remaining = 0
    private let messageByteLimit: Int
    /// Of permessage-deflate; nil where it was not negotiated.
    private let inflater: MessageInflater?
    /// Rotated so that its first byte belongs to the next byte of the payload.
    private var maskingKey: UInt32 = 0
    /// The first ``headerCount`` bytes of an incomplete header.
    private var header = InlineArray<14, UInt8>(repeating: 0)
    private var headerCount: UInt8 = 0
    private var controlCount: UInt8 = 0
    private var phase = Phase.header
    private var lastEvent = LastEvent.nothing
    /// Of the current frame, in the payload phase; as `isFinal`.
    private var opcode = Opcode.continuation
    private var isFinal = false
    /// `text` or `binary` while a message is open, `continuation` when none is.
    private var openMessage = Opcode.continuation
    /// Whether the open message is compressed.
    private var isCompressed = false
    private let isServer: Bool
    private let checksText: Bool
    /// False as long as all text of the open message was ASCII: then the validator is not used.
    private var hasBegunValidation = false
    private var validator = UTF8Validator()

    /// - Parameters:
    ///   - role: This end of the connection: a server demands masks, a client forbids them.
    ///   - messageByteLimit: Most bytes of a message, over all its fragments.
    ///   - checksText: Whether text must be UTF-8; other text is refused at the first invalid byte.
    ///     RFC 6455 §8.1 demands it. The database's endpoint checks messages after their reassembly, because
    ///     some clients cut them inside characters.
    ///   - inflater: Of the connection, or shared (``MessageCompression``); nil where permessage-deflate was
    ///     not negotiated.
    package init(
        role: Role, messageByteLimit: Int, checksText: Bool, inflater: MessageInflater? = nil
    ) {
        self.inflater = inflater
        self.isServer = role == .server
        self.messageByteLimit = max(0, messageByteLimit)
        self.checksText = checksText
    }

    /// Whether no frame and no message has begun: the stream may end here.
    package var isIdle: Bool {
        phase != .payload && headerCount == 0 && openMessage == .continuation
    }

    /// Whether the last event was a compressed message, and as much was inflated as may be in a turn
    /// (``MessageInflater/refillBudget()``): what follows should wait until others have had theirs.
    package var hasInflatedEnough: Bool {
        if case .inflated = lastEvent { inflater?.isBudgetUsedUp ?? false } else { false }
    }

    /// About how many bytes of memory this reader has for incomplete messages: arrays grow by a factor of
    /// two. (Their capacity itself depends on the allocator, and a simulation with the same seed must be the
    /// same run.)
    package var ownedByteCount: Int { 2 * owned.count }

    /// Reads `input` from `offset` on, up to the end of the next event. The bytes are unmasked in place.
    ///
    /// Call it until it gives nil: then all of the input was read, and may be overwritten.
    /// - Parameter offset: Moved behind the bytes that were read.
    /// - Throws: ``ProtocolViolation``, after all events before it. Nothing is read afterwards.
    /// - Complexity: O(bytes). Allocates only for frames that the input's end cuts, and for fragmented
    ///   messages.
    package mutating func next(
        _ input: inout MutableRawSpan, from offset: inout Int
    ) throws(ProtocolViolation) -> Event? {
        if lastEvent != .nothing { removeLastEvent() }
        return try unsafe input.withUnsafeMutableBytes { buffer throws(ProtocolViolation) -> Event? in
            // A buffer without an address is empty: nothing to read.
            guard let base = buffer.baseAddress else { return nil }
            // The cursor is used only in this closure, in which the buffer is valid.
            var cursor = unsafe FrameCursor(base: base, count: buffer.count, offset: offset)
            defer { offset = cursor.offset }
            do throws(ProtocolViolation) {
                return try next(&cursor)
            } catch {
                phase = .ended
                owned = []
                controlCount = 0
                lastEvent = .nothing
                throw error
            }
        }
    }

    /// Calls `body` with the payload of the event that the last call of ``next(_:from:)`` gave.
    ///
    /// The bytes are in one of two places, and the compiler cannot express the lifetime of a span that
    /// depends on both: hence a closure. It is called once per message from another module, and inlinable so
    /// that it costs nothing.
    /// - Parameter input: What was passed to `next`.
    /// - Throws: What `body` throws.
    @inlinable
    package func withBytes<Result, Failure: Error>(
        of payload: Payload, in input: borrowing MutableRawSpan, _ body: (RawSpan) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        if payload.isInInput { return try body(input.bytes.extracting(payload.range)) }
        return try body(owned.rawSpan.extracting(payload.range))
    }

    /// Moves out the payload of the message that the last call of ``next(_:from:)`` gave, without a copy.
    /// - Returns: nil where the payload is in the input.
    package mutating func takeBytes(of payload: Payload) -> [UInt8]? {
        guard !payload.isInInput, lastEvent == .message || lastEvent == .inflated,
            payload.range == 0..<owned.count
        else { return nil }
        lastEvent = .nothing
        return exchange(&owned, with: [])
    }

    private mutating func next(_ cursor: inout FrameCursor) throws(ProtocolViolation) -> Event? {
        while true {
            switch phase {
            case .header:
                guard try readHeader(&cursor) else { return nil }
                phase = .payload
            case .payload:
                guard let payload = try readPayload(&cursor) else { return nil }
                phase = .header
                if let event = try finishFrame(payload, in: cursor) { return event }
            case .ended:
                cursor.advance(cursor.remaining)
                return nil
            }
        }
    }

    /// Removes the payload of the last event from ``owned``.
    private mutating func removeLastEvent() {
        switch lastEvent {
        case .nothing: break
        case .message: owned = []
        case .inflated: inflater?.recycle(exchange(&owned, with: []))
        case .control:
            owned.removeLast(Int(controlCount))
            if owned.isEmpty { owned = [] }
        }
        controlCount = 0
        lastEvent = .nothing
    }
}

// MARK: - Headers

// The five functions of the common path are inlined into one: as calls they pass their arguments through
// memory, and a frame of 16 bytes takes 24 ns instead of 14.

extension MessageReader {
    /// Reads a header, or the part of it that is in the input.
    /// - Returns: false when the input ended first.
    @inline(__always)
    private mutating func readHeader(_ cursor: inout FrameCursor) throws(ProtocolViolation) -> Bool {
        if headerCount == 0, cursor.remaining >= 2 {
            let (first, second) = (cursor[0], cursor[1])
            let size = FrameHeader.byteCount(second: second)
            if cursor.remaining >= size {
                let code = try checkFirst(first)
                try checkSecond(second, opcode: code)
                let length: UInt64 =
                    switch second & 0x7F {
                    case 126: UInt64(cursor.load(2, as: UInt16.self).byteSwapped)
                    case 127: cursor.load(2, as: UInt64.self).byteSwapped
                    case let short: UInt64(short)
                    }
                let key = isServer ? cursor.load(size &- 4, as: UInt32.self) : 0
                try begin(code, first: first, second: second, length: length, key: key)
                cursor.advance(size)
                return true
            }
        }
        return try collectHeader(&cursor)
    }

    /// Reads a header that the end of the input cuts: byte by byte, over any number of calls. Each byte is
    /// checked as soon as it is received.
    @inline(never)
    private mutating func collectHeader(_ cursor: inout FrameCursor) throws(ProtocolViolation) -> Bool {
        while cursor.remaining > 0 {
            // In bounds: the header is complete, and the count 0 again, after at most 14 bytes.
            header[Int(headerCount)] = cursor[0]
            headerCount &+= 1
            cursor.advance(1)
            let code = try checkFirst(header[0])
            guard headerCount >= 2 else { continue }
            try checkSecond(header[1], opcode: code)
            let size = FrameHeader.byteCount(second: header[1])
            guard Int(headerCount) == size else { continue }

            headerCount = 0
            let lengthEnd = isServer ? size &- 4 : size
            var length = UInt64(header[1] & 0x7F)
            if length >= 126 {
                length = 0
                for index in 2..<lengthEnd { length = length << 8 | UInt64(header[index]) }
            }
            var key: UInt32 = 0
            for index in (lengthEnd..<size).reversed() { key = key << 8 | UInt32(header[index]) }
            try begin(code, first: header[0], second: header[1], length: length, key: key)
            return true
        }
        return false
    }

    @inline(__always)
    private func checkFirst(_ byte: UInt8) throws(ProtocolViolation) -> Opcode {
        if byte & FrameHeader.reservedBits != 0 { try checkReservedBits(byte) }
        guard let code = Opcode(rawValue: byte & 0x0F) else { throw .reservedOpcode(byte & 0x0F) }
        if code.isControl {
            guard byte & 0x80 != 0 else { throw .fragmentedControlFrame }
        } else if code == .continuation {
            guard openMessage != .continuation else { throw .unexpectedContinuation }
        } else {
            guard openMessage == .continuation else { throw .unfinishedMessage }
        }
        return code
    }

    /// RSV1 is for the first frame of a message, if permessage-deflate was negotiated (RFC 7692 §6.1).
    @inline(never)
    private func checkReservedBits(_ byte: UInt8) throws(ProtocolViolation) {
        let code = Opcode(rawValue: byte & 0x0F)
        guard inflater != nil, byte & FrameHeader.reservedBits == FrameHeader.compressedBit,
            code == .text || code == .binary
        else { throw .reservedBitsSet }
    }

    @inline(__always)
    private func checkSecond(_ byte: UInt8, opcode: Opcode) throws(ProtocolViolation) {
        guard (byte & 0x80 != 0) == isServer else {
            throw isServer ? .unmaskedClientFrame : .maskedServerFrame
        }
        guard !opcode.isControl || byte & 0x7F <= FrameHeader.controlByteLimit else {
            throw .controlFrameTooLong
        }
    }

    /// Checks the length of a complete header, and makes its frame the current one.
    @inline(__always)
    private mutating func begin(
        _ code: Opcode, first: UInt8, second: UInt8, length: UInt64, key: UInt32
    ) throws(ProtocolViolation) {
        switch second & 0x7F {
        case 126: guard length > 125 else { throw .lengthNotMinimal }
        case 127:
            guard length >> 63 == 0 else { throw .lengthTopBitSet }
            guard length > 0xFFFF else { throw .lengthNotMinimal }
        default: break
        }
        if !code.isControl {
            if code != .continuation {
                openMessage = code
                isCompressed = first & FrameHeader.compressedBit != 0
                if hasBegunValidation {
                    hasBegunValidation = false
                    validator = UTF8Validator()
                }
            }
            // The announced length is checked before any byte is copied. `owned` is within the limit already.
            let limit =
                isCompressed
                ? MessageInflater.compressedByteLimit(messageByteLimit: messageByteLimit) : messageByteLimit
            guard length <= UInt64(max(0, limit &- owned.count)) else {
                throw .messageTooBig(byteLimit: messageByteLimit)
            }
        }
        opcode = code
        isFinal = first & 0x80 != 0
        // Below 2^63 by the checks above.
        remaining = Int(length)
        maskingKey = key
    }
}

// MARK: - Payloads

extension MessageReader {
    /// Reads a payload, or the part of it that is in the input: unmasks it, checks text, and copies it to
    /// ``owned`` unless it is complete.
    /// - Returns: The payload of the frame, or of the message after its last fragment; nil when the input
    ///   ended first, or other fragments follow.
    @inline(__always)
    private mutating func readPayload(_ cursor: inout FrameCursor) throws(ProtocolViolation) -> Payload? {
        let isControl = opcode.isControl
        let count = min(remaining, cursor.remaining)
        if count == 0, remaining > 0 { return nil }

        let isText = checksText && !isControl && openMessage == .text && !isCompressed
        if isServer {
            let isASCII = cursor.applyMask(count, key: maskingKey)
            if isText { try checkText(count, isASCII: isASCII, in: cursor) }
        } else if isText {
            try checkText(count, isASCII: cursor.isASCII(count), in: cursor)
        }

        remaining &-= count
        let start = cursor.offset
        // The common case: the payload is complete, and nothing of it was copied before.
        if remaining == 0, isControl ? controlCount == 0 : (isFinal && owned.isEmpty) {
            cursor.advance(count)
            return Payload(range: start..<cursor.offset, isInInput: true)
        }

        maskingKey = rotated(maskingKey, by: count)
        cursor.withBytes(count) { owned.appendGrowing($0) }
        cursor.advance(count)
        // At most 125, by the check on the header.
        if isControl { controlCount &+= UInt8(truncatingIfNeeded: count) }
        guard remaining == 0 else { return nil }
        return Payload(
            range: (isControl ? owned.count &- Int(controlCount) : 0)..<owned.count, isInInput: false)
    }

    /// Checks the next `count` bytes of text, and at the end of the message that no character is incomplete.
    private mutating func checkText(
        _ count: Int, isASCII: Bool, in cursor: FrameCursor
    ) throws(ProtocolViolation) {
        if hasBegunValidation || !isASCII {
            hasBegunValidation = true
            guard cursor.withBytes(count, { validator.accept($0) }) else { throw .invalidUTF8 }
            if isFinal, count == remaining, !validator.isAtBoundary { throw .invalidUTF8 }
        }
    }

    /// The event of a complete frame.
    /// - Returns: nil for a fragment that others follow.
    private mutating func finishFrame(_ payload: Payload, in cursor: FrameCursor) throws(ProtocolViolation)
        -> Event?
    {
        switch opcode {
        case .continuation, .text, .binary:
            guard isFinal else { return nil }
            let kind = openMessage
            openMessage = .continuation
            if isCompressed {
                guard let inflated = try inflate(payload, in: cursor, isText: kind == .text) else {
                    if !payload.isInInput { lastEvent = .message }
                    return .compressed(isText: kind == .text, payload)
                }
                return kind == .text ? .text(inflated) : .binary(inflated)
            }
            if !payload.isInInput { lastEvent = .message }
            return kind == .text ? .text(payload) : .binary(payload)
        case .ping:
            if !payload.isInInput { lastEvent = .control }
            return .ping(payload)
        case .pong:
            if !payload.isInInput { lastEvent = .control }
            return .pong(payload)
        case .close:
            if !payload.isInInput { lastEvent = .control }
            phase = .ended
            return try readClose(payload, in: cursor)
        }
    }

    /// Replaces a complete compressed message by its contents, in ``owned``.
    /// - Returns: nil for a message that is left to the caller.
    @inline(never)
    private mutating func inflate(
        _ compressed: Payload, in cursor: FrameCursor, isText: Bool
    ) throws(ProtocolViolation) -> Payload? {
        guard let inflater else { preconditionFailure("a compressed message without an inflater") }
        isCompressed = false
        let inflated =
            compressed.isInInput
            ? try cursor.withBytes(of: compressed.range) { bytes throws(ProtocolViolation) in
                try inflater.inflateUnlessDeferred(bytes, byteLimit: messageByteLimit)
            }
            : try inflater.inflateUnlessDeferred(owned.rawSpan, byteLimit: messageByteLimit)
        guard let inflated else { return nil }
        owned = inflated
        lastEvent = .inflated
        if isText, checksText, !isValidUTF8(owned.rawSpan) { throw .invalidUTF8 }
        return Payload(range: 0..<owned.count, isInInput: false)
    }

    /// The event of a close frame: empty, or a code and a reason in UTF-8 (RFC 6455 §5.5.1).
    private func readClose(_ payload: Payload, in cursor: FrameCursor) throws(ProtocolViolation) -> Event {
        if payload.count == 0 { return .close(nil, reason: payload) }
        guard payload.count >= 2 else { throw .truncatedCloseCode }
        let bytes = payload.isInInput ? cursor.copy(payload.range) : Array(owned[payload.range])
        let code = CloseCode(rawValue: UInt16(bytes[0]) << 8 | UInt16(bytes[1]))
        guard code.isSendable else { throw .invalidCloseCode(code.rawValue) }
        guard isValidUTF8(bytes.rawSpan.extracting(droppingFirst: 2)) else { throw .invalidUTF8 }
        let reason = (payload.range.lowerBound + 2)..<payload.range.upperBound
        return .close(code, reason: Payload(range: reason, isInInput: payload.isInInput))
    }
}
