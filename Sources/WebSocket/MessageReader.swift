import PandoBytes

/// Where an event's bytes lie: in the window that was read, or in the reader's own memory.
/// Valid until the next call of ``MessageReader/next(_:from:)``; get the bytes with
/// ``MessageReader/withBytes(of:in:_:)``.
@usableFromInline
package struct Payload: Equatable, Sendable {
    @usableFromInline package let range: Range<Int>
    /// True when `range` counts in the window: nothing was copied.
    @usableFromInline package let isInWindow: Bool

    package init(range: Range<Int>, isInWindow: Bool) {
        self.range = range
        self.isInWindow = isInWindow
    }

    package var count: Int { range.count }
}

/// What came.
package enum Event: Equatable, Sendable {
    /// A whole text message; checked to be UTF-8 if the reader was asked to.
    case text(Payload)
    /// A whole binary message.
    case binary(Payload)
    case ping(Payload)
    case pong(Payload)
    /// The last event ever. The code is nil when the frame had none; the reason is UTF-8.
    case close(CloseCode?, reason: Payload)
}

/// Turns a stream of frames into messages and control frames (RFC 6455 §5, §6.2), in place.
///
/// The event loop owns one receive buffer and lends a window of it after each read. A frame that lies whole
/// in the window is unmasked there, and its event refers to it: no copy, no allocation, no reference
/// counting. What a window leaves unfinished is moved to ``owned``, which is given back when its message has
/// been handed out.
///
/// An idle reader is 64 bytes and owns nothing.
@usableFromInline
package struct MessageReader {
    /// Where in the stream we are.
    private enum Phase: UInt8 {
        /// Between frames, or inside a header of which ``header`` holds the beginning.
        case header
        /// Inside a payload.
        case payload
        /// After a close frame or a violation. Terminal: what comes is dropped (RFC 6455 §1.4, §7.1.7).
        case ended
    }

    /// What ``owned`` lent to the last event, and the next call may take back.
    private enum Lent: UInt8 {
        case nothing, message, control
    }

    /// The fragments of the open message that have come, then the ``controlCount`` bytes of a control frame
    /// that a window's end has cut. Grows by what has come, never by what is announced.
    @usableFromInline internal private(set) var owned: [UInt8] = []
    /// Payload bytes the current frame still owes.
    private var remaining = 0
    private let messageByteLimit: Int
    /// Lines up with the next payload byte.
    private var maskingKey: UInt32 = 0
    /// The beginning of a header that a window's end has cut: ``headerCount`` bytes.
    private var header = InlineArray<14, UInt8>(repeating: 0)
    private var headerCount: UInt8 = 0
    private var controlCount: UInt8 = 0
    private var phase = Phase.header
    private var lent = Lent.nothing
    /// The current frame's, in the payload phase.
    private var opcode = Opcode.continuation
    private var isFinal = false
    /// `text` or `binary` while a message is open, `continuation` when none is.
    private var openMessage = Opcode.continuation
    private let isServer: Bool
    private let checksText: Bool
    /// False as long as all text of the open message was ASCII: then the validator has nothing to remember.
    private var hasBegunValidation = false
    private var validator = UTF8Validator()

    /// RSV bits that an extension has given a meaning. None is negotiated, so none may be set.
    ///
    /// This is where RFC 7692 comes in: permessage-deflate would allow RSV1 (0x40) on a message's first
    /// frame, remember it beside ``openMessage``, count the inflated bytes against the limit, and stand
    /// between the payload and ``checkText(_:isASCII:in:)``, which must see what was inflated.
    private var negotiatedReservedBits: UInt8 { 0 }

    /// - Parameters:
    ///   - role: Which end we are: a server demands masks, a client forbids them.
    ///   - messageByteLimit: Longest message, over all its fragments.
    ///   - checksText: Whether text must be UTF-8, refused at the first byte that cannot be. RFC 6455 §8.1
    ///     demands it; the database's own endpoint checks reassembled messages itself, because some clients
    ///     cut inside characters.
    package init(role: Role, messageByteLimit: Int, checksText: Bool) {
        self.isServer = role == .server
        self.messageByteLimit = max(0, messageByteLimit)
        self.checksText = checksText
    }

    /// True when no frame and no message has begun: the stream may end here without cutting anything.
    package var isIdle: Bool {
        phase != .payload && headerCount == 0 && openMessage == .continuation
    }

    /// Bytes this reader keeps for messages that are not complete, about.
    package var ownedByteCount: Int { min(owned.capacity, 2 * owned.count) }

    /// Reads `window` from `offset` on and moves `offset` behind what it took. The window's bytes are
    /// unmasked in place.
    ///
    /// Call until it gives nil: then the window is used up, and may be overwritten.
    /// - Throws: ``ProtocolViolation``, after all events that came before it. Nothing is read afterwards.
    /// - Complexity: O(bytes). Allocates only for frames cut by the window's end and for fragmented messages.
    package mutating func next(
        _ window: inout MutableRawSpan, from offset: inout Int
    ) throws(ProtocolViolation) -> Event? {
        if lent != .nothing { takeBack() }
        return try unsafe window.withUnsafeMutableBytes { buffer throws(ProtocolViolation) -> Event? in
            // A buffer without an address is empty: nothing to read.
            guard let base = buffer.baseAddress else { return nil }
            // The window is the buffer, and lives as long as this closure.
            var window = unsafe Window(base: base, count: buffer.count, offset: offset)
            defer { offset = window.offset }
            do throws(ProtocolViolation) {
                return try next(&window)
            } catch {
                phase = .ended
                owned = []
                controlCount = 0
                lent = .nothing
                throw error
            }
        }
    }

    /// Lends the bytes of an event that the last call of ``next(_:from:)`` gave, from the window it was
    /// given.
    ///
    /// A closure because the bytes lie in one of two places, and the compiler cannot follow a span that
    /// depends on both. Inlinable so that the closure costs nothing: it runs once per message, in another
    /// room.
    @inlinable
    package func withBytes<Result, Failure: Error>(
        of payload: Payload, in window: borrowing MutableRawSpan, _ body: (RawSpan) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        if payload.isInWindow { return try body(window.bytes.extracting(payload.range)) }
        return try body(owned.rawSpan.extracting(payload.range))
    }

    /// Hands over the bytes of a message that the last call of ``next(_:from:)`` gave, where the reader owns
    /// them: they are not copied.
    /// - Returns: Nil where they lie in the window.
    package mutating func takeBytes(of payload: Payload) -> [UInt8]? {
        guard !payload.isInWindow, lent == .message, payload.range == 0..<owned.count else { return nil }
        var taken: [UInt8] = []
        swap(&taken, &owned)
        lent = .nothing
        return taken
    }

    private mutating func next(_ window: inout Window) throws(ProtocolViolation) -> Event? {
        while true {
            switch phase {
            case .header:
                guard try readHeader(&window) else { return nil }
                phase = .payload
            case .payload:
                guard let payload = try readPayload(&window) else { return nil }
                phase = .header
                if let event = try finishFrame(payload, in: window) { return event }
            case .ended:
                window.advance(window.remaining)
                return nil
            }
        }
    }

    /// Takes back what the last event borrowed.
    private mutating func takeBack() {
        if lent == .control { owned.removeLast(Int(controlCount)) }
        if lent == .message || owned.isEmpty { owned = [] }
        controlCount = 0
        lent = .nothing
    }
}

// MARK: - Headers

// The five functions of the common path are inlined into one: apart, they pass their few words through
// memory, and a frame of 16 bytes costs 24 ns instead of 14.

extension MessageReader {
    /// Reads a header, or what there is of one.
    /// - Returns: false when the window ended first.
    @inline(__always)
    private mutating func readHeader(_ window: inout Window) throws(ProtocolViolation) -> Bool {
        if headerCount == 0, window.remaining >= 2 {
            let (first, second) = (window[0], window[1])
            let size = FrameHeader.byteCount(second: second)
            if window.remaining >= size {
                let code = try checkFirst(first)
                try checkSecond(second, opcode: code)
                let length: UInt64 =
                    switch second & 0x7F {
                    case 126: UInt64(window.load(2, as: UInt16.self).byteSwapped)
                    case 127: window.load(2, as: UInt64.self).byteSwapped
                    case let short: UInt64(short)
                    }
                let key = isServer ? window.load(size &- 4, as: UInt32.self) : 0
                try begin(code, first: first, second: second, length: length, key: key)
                window.advance(size)
                return true
            }
        }
        return try collectHeader(&window)
    }

    /// The slow way: byte by byte, over any number of windows. Judges each byte as soon as it has come.
    @inline(never)
    private mutating func collectHeader(_ window: inout Window) throws(ProtocolViolation) -> Bool {
        while window.remaining > 0 {
            // In bounds: the header is complete, and the count 0 again, after at most 14 bytes.
            header[Int(headerCount)] = window[0]
            headerCount &+= 1
            window.advance(1)
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
        guard byte & 0x70 & ~negotiatedReservedBits == 0 else { throw .reservedBitsSet }
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

    @inline(__always)
    private func checkSecond(_ byte: UInt8, opcode: Opcode) throws(ProtocolViolation) {
        guard (byte & 0x80 != 0) == isServer else {
            throw isServer ? .unmaskedClientFrame : .maskedServerFrame
        }
        guard !opcode.isControl || byte & 0x7F <= FrameHeader.controlByteLimit else {
            throw .controlFrameTooLong
        }
    }

    /// The header is complete: judges the length and makes the frame the current one.
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
            // The announced length, before a byte of it is kept. `owned` holds no more than the limit
            // already.
            guard length <= UInt64(max(0, messageByteLimit &- owned.count)) else {
                throw .messageTooBig(byteLimit: messageByteLimit)
            }
            if code != .continuation {
                openMessage = code
                if hasBegunValidation {
                    hasBegunValidation = false
                    validator = UTF8Validator()
                }
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
    /// Reads a payload, or what there is of one: unmasks, checks text, and keeps what has to be kept.
    /// - Returns: The payload of the frame (or, of a message's last fragment, the message), nil when the
    ///   window ended first or a fragment was kept.
    @inline(__always)
    private mutating func readPayload(_ window: inout Window) throws(ProtocolViolation) -> Payload? {
        let isControl = opcode.isControl
        let taken = min(remaining, window.remaining)
        if taken == 0, remaining > 0 { return nil }

        let isText = checksText && !isControl && openMessage == .text
        if isServer {
            let isASCII = window.applyMask(taken, key: maskingKey)
            if isText { try checkText(taken, isASCII: isASCII, in: window) }
        } else if isText {
            try checkText(taken, isASCII: window.isASCII(taken), in: window)
        }

        remaining &-= taken
        let start = window.offset
        // The common case: the whole payload is here, and nothing of it was kept before.
        if remaining == 0, isControl ? controlCount == 0 : (isFinal && owned.isEmpty) {
            window.advance(taken)
            return Payload(range: start..<window.offset, isInWindow: true)
        }

        maskingKey = rotated(maskingKey, by: taken)
        window.withBytes(taken) { owned.appendGrowing($0) }
        window.advance(taken)
        // At most 125, by the check on the header.
        if isControl { controlCount &+= UInt8(truncatingIfNeeded: taken) }
        guard remaining == 0 else { return nil }
        return Payload(
            range: (isControl ? owned.count &- Int(controlCount) : 0)..<owned.count, isInWindow: false)
    }

    /// Checks the next `count` bytes of text, and at the end of the message that no character is unfinished.
    private mutating func checkText(
        _ count: Int, isASCII: Bool, in window: Window
    ) throws(ProtocolViolation) {
        if hasBegunValidation || !isASCII {
            hasBegunValidation = true
            guard window.withBytes(count, { validator.accept($0) }) else { throw .invalidUTF8 }
            if isFinal, count == remaining, !validator.isAtBoundary { throw .invalidUTF8 }
        }
    }

    /// The frame is complete: what does it mean?
    /// - Returns: nil for a fragment that others will follow.
    private mutating func finishFrame(_ payload: Payload, in window: Window) throws(ProtocolViolation)
        -> Event?
    {
        switch opcode {
        case .continuation, .text, .binary:
            guard isFinal else { return nil }
            if !payload.isInWindow { lent = .message }
            let kind = openMessage
            openMessage = .continuation
            return kind == .text ? .text(payload) : .binary(payload)
        case .ping:
            if !payload.isInWindow { lent = .control }
            return .ping(payload)
        case .pong:
            if !payload.isInWindow { lent = .control }
            return .pong(payload)
        case .close:
            if !payload.isInWindow { lent = .control }
            phase = .ended
            return try readClose(payload, in: window)
        }
    }

    /// A close frame is empty, or a code and a reason in UTF-8 (RFC 6455 §5.5.1).
    private func readClose(_ payload: Payload, in window: Window) throws(ProtocolViolation) -> Event {
        if payload.count == 0 { return .close(nil, reason: payload) }
        guard payload.count >= 2 else { throw .truncatedCloseCode }
        let bytes = payload.isInWindow ? window.copy(payload.range) : Array(owned[payload.range])
        let code = CloseCode(rawValue: UInt16(bytes[0]) << 8 | UInt16(bytes[1]))
        guard code.isSendable else { throw .invalidCloseCode(code.rawValue) }
        guard isValidUTF8(bytes.rawSpan.extracting(droppingFirst: 2)) else { throw .invalidUTF8 }
        let reason = (payload.range.lowerBound + 2)..<payload.range.upperBound
        return .close(code, reason: Payload(range: reason, isInWindow: payload.isInWindow))
    }
}
