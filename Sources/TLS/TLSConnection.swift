import CTLS

/// One connection of TLS 1.2 or 1.3, as server or client: bytes in, bytes out. No socket, clock or thread.
///
///     waiting ──first bytes──▶ handshake ──────▶ established ──close_notify──▶ ended
///                                  │                  │
///                                  └──── TLSError ◀───┘     after it, nothing may be called but `close`
///
/// libssl makes the handshake; its object is freed then, and this type protects the records with the keys
/// that were agreed on. So an idle connection takes about 3 KiB and not the 14 KiB of libssl's object,
/// records are decrypted where they were received, and encrypted straight from shared bytes to the bytes that
/// are sent.
///
/// Confined to one thread at a time.
package final class TLSConnection {
    /// Free bytes that the buffer of ``receive(_:count:replies:)`` has before what was received.
    package static let headroomByteCount = 17 << 10
    /// Most records without data in one call: honest peers send one in a while. Each may cost a derivation of
    /// keys.
    package static let controlRecordLimit = 32
    /// Records after which TLS 1.3 goes on to new keys: less than the 2^24.5 full ones that AES-GCM allows
    /// (RFC 8446 §5.5). TLS 1.2 has no new keys: see ``isUsedUp``.
    static let recordLimitOfKeys: UInt64 = 1 << 23
    /// Blocks of AES in a full record.
    static let blocksOfRecord = UInt64(RecordLimits.dataByteCount / 16)

    /// For tests and the simulator.
    package var recordLimitOfKeys = TLSConnection.recordLimitOfKeys

    private let isServer: Bool
    /// Until the handshake is done: after a reload, connections do not keep former certificates.
    private var server: TLSServerContext?
    private var client: TLSClientContext?
    private var handshake: Handshake?
    private var reading: RecordKeys?
    private var writing: RecordKeys?
    private var messages = PostHandshakeReader()
    /// The beginning of a record whose end was not received yet: less than ``headroomByteCount``.
    private var partial: [UInt8] = []
    /// What the handshake has agreed on; nil until it is done.
    package private(set) var facts: TLSFacts?
    private var hasEnded = false
    private var hasFailed = false
    private var hasClosed = false

    /// A server's side. Takes little memory until the client has sent something.
    package init(server context: TLSServerContext) {
        isServer = true
        server = context
        client = nil
    }

    /// A client's side; its first message is there at once: ``begin(to:)``.
    /// - Parameter host: The name or IP address that the server's certificate must have; nil for no check of
    ///   the name.
    /// - Throws: ``TLSError``.
    package init(client context: TLSClientContext, host: String?) throws(TLSError) {
        isServer = false
        server = nil
        client = context
        guard let handshake = Handshake(client: context, host: host) else { throw .machine }
        _ = try unsafe handshake.advance(UnsafeRawBufferPointer(start: nil, count: 0))
        self.handshake = handshake
    }

    /// Moves what a client sends first to `output`; nothing for a server, and the second time.
    package func begin(to output: SealedBuffer) {
        handshake?.takeOutput(to: output)
    }

    /// Whether data can be sent.
    package var isEstablished: Bool { writing != nil && !hasFailed && !hasClosed }

    /// Whether a server's handshake has sent all its messages, and all that is left to do takes little time,
    /// but for a client with a certificate, whose chain is checked. Only with TLS 1.3: before, the secret is
    /// computed when the client's last messages are read.
    package var hasAnswered: Bool { handshake?.hasAnswered ?? false }

    /// Bytes of memory that the peer makes this connection hold: a handshake that is not done, a record that
    /// is not complete, of which an array may take twice as many. (Its capacity depends on the allocator, and
    /// a simulation with the same seed must be the same run.) O(1).
    package var heldByteCount: Int {
        2 * partial.count + (handshake?.memoryByteCount ?? 0)
    }

    /// Whether either side has sent as much under its keys as AES-GCM allows, and cannot go on to new ones:
    /// in TLS 1.2, as many blocks as ``recordLimitOfKeys`` full records have, 128 GiB of data. The connection
    /// should end soon. O(1).
    package var isUsedUp: Bool {
        guard let facts, facts.version == .tls12, facts.cipher != .chaCha20Poly1305 else { return false }
        let blockCount = max(reading?.blockCount ?? 0, writing?.blockCount ?? 0)
        return blockCount / Self.blocksOfRecord >= recordLimitOfKeys
    }

    // MARK: Receiving

    /// Takes bytes of the peer, and decrypts them in place. O(bytes); one step of a handshake may take
    /// milliseconds.
    /// - Parameters:
    ///   - buffer: ``headroomByteCount`` free bytes, then what was received. All of it may be changed.
    ///   - count: How many bytes were received.
    ///   - replies: Gets what must be sent to the peer.
    package func receive(_ buffer: UnsafeMutableRawBufferPointer, count: Int, replies: SealedBuffer)
        -> Received
    {
        precondition(buffer.count >= Self.headroomByteCount + count && count >= 0)
        var received = Received()
        guard !hasEnded, !hasFailed else { return received }
        var start = Self.headroomByteCount
        let end = start + count
        if !partial.isEmpty {
            // In bounds: `count` bytes from `start` on were received.
            let arrived = unsafe UnsafeRawBufferPointer(rebasing: buffer[start..<end])
            if partial.count + count < missingEnd {
                unsafe partial.append(contentsOf: arrived)
                return received
            }
            // In bounds: a partial record is shorter than the headroom.
            start -= partial.count
            unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[start...]).copyBytes(from: partial)
            partial = []
        }
        do throws(TLSError) {
            try unsafe read(buffer, start..<end, into: &received, replies)
        } catch {
            fail(error, replies)
            received.failure = error
        }
        return received
    }

    /// How many bytes the partial record must have before it is worth a look.
    private var missingEnd: Int {
        guard partial.count >= RecordLimits.headerByteCount else { return RecordLimits.headerByteCount }
        return unsafe partial.withUnsafeBytes { unsafe RecordHeader($0).byteCount }
    }

    private func read(
        _ buffer: UnsafeMutableRawBufferPointer, _ range: Range<Int>, into received: inout Received,
        _ replies: SealedBuffer
    ) throws(TLSError) {
        var position = range.lowerBound
        var controlCount = 0
        while range.upperBound - position >= RecordLimits.headerByteCount, !hasEnded {
            let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[position..<range.upperBound])
            let header = unsafe RecordHeader(UnsafeRawBufferPointer(rest))
            guard reading != nil else {
                let isWhole = header.byteCount <= rest.count
                let isValid = header.isValid && header.payloadByteCount <= RecordLimits.payloadByteCount
                if isValid, !isWhole { break }
                // libssl finds the alert for what is no record.
                let used = isValid ? header.byteCount : rest.count
                received.didEstablish = try unsafe advance(
                    UnsafeRawBufferPointer(rebasing: rest[..<used]), replies)
                position += used
                continue
            }
            guard header.isValid else { throw .violation(.unexpectedMessage) }
            guard header.payloadByteCount <= RecordLimits.payloadByteCount else {
                throw .violation(.recordOverflow)
            }
            guard header.byteCount <= rest.count else { break }
            let record = unsafe UnsafeMutableRawBufferPointer(rebasing: rest[..<header.byteCount])
            let data = try unsafe open(record, header, replies)
            if data.isEmpty {
                controlCount += 1
                guard controlCount <= Self.controlRecordLimit else { throw .tooManyControlRecords }
            } else if received.data.isEmpty {
                received.data = position + data.lowerBound..<position + data.upperBound
            } else {
                // In bounds, and towards the front: the data before it ends where an earlier record ended, or
                // sooner.
                let target = unsafe UnsafeMutableRawBufferPointer(
                    rebasing: buffer[received.data.upperBound...])
                unsafe target.copyMemory(from: UnsafeRawBufferPointer(rebasing: record[data]))
                received.data = received.data.lowerBound..<received.data.upperBound + data.count
            }
            position += header.byteCount
        }
        received.hasEnded = hasEnded
        guard position < range.upperBound, !hasEnded else { return }
        partial = unsafe Array(buffer[position..<range.upperBound])
    }

    /// - Returns: Whether the handshake is done.
    private func advance(_ bytes: UnsafeRawBufferPointer, _ replies: SealedBuffer) throws(TLSError) -> Bool {
        if handshake == nil, let server {
            // Methods of HTTP begin with a letter, records with 20 to 23.
            if let first = unsafe bytes.first, (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(first) {
                // At least as many bytes are here as the header of a record has: five.
                throw .plainHTTP(isHEAD: unsafe bytes.starts(with: "HEAD ".utf8))
            }
            handshake = Handshake(server: server)
        }
        guard let current = handshake else { throw .machine }
        // Also after a failure: an alert.
        defer { current.takeOutput(to: replies) }
        guard try unsafe current.advance(bytes) else { return false }
        facts = try current.finish(&reading, &writing)
        handshake = nil
        (server, client) = (nil, nil)
        return true
    }

    /// Decrypts a record, and does what it says.
    /// - Returns: Where its application data is; empty where it has none.
    private func open(
        _ record: UnsafeMutableRawBufferPointer, _ header: RecordHeader, _ replies: SealedBuffer
    ) throws(TLSError) -> Range<Int> {
        let is13 = facts?.version == .tls13
        // Everything is encrypted now, and a second change of ciphers is none (RFC 8446 §5).
        guard
            header.type == RecordType.applicationData || (!is13 && header.type != RecordType.changeCipherSpec)
        else { throw .violation(.unexpectedMessage) }
        guard let opened = try unsafe reading?.open(record) else { throw .machine }
        if messages.isIncomplete, opened.type != RecordType.handshake { throw .violation(.unexpectedMessage) }
        if opened.type == RecordType.applicationData { return opened.data }
        let data = unsafe UnsafeRawBufferPointer(rebasing: record[opened.data])
        switch opened.type {
        case RecordType.alert: try unsafe receive(alert: data, is13: is13)
        case RecordType.handshake where is13:
            // RFC 8446 §5.1: no empty fragments of handshake messages.
            guard opened.data.count > 0 else { throw .violation(.unexpectedMessage) }
            guard let wantsUpdate = try messages.read(unsafe Array(data), isServer: isServer) else { break }
            try reading?.update()
            if wantsUpdate { try updateWritingKeys(replies) }
        // A wish to negotiate again (RFC 5246 §7.2.2).
        case RecordType.handshake: try seal(warning: .noRenegotiation, to: replies)
        default: throw .violation(.unexpectedMessage)
        }
        return 0..<0
    }

    private func receive(alert: UnsafeRawBufferPointer, is13: Bool) throws(TLSError) {
        guard alert.count == 2 else { throw .violation(.decodeError) }
        // In bounds: two bytes.
        let (level, description) = unsafe (alert[0], alert[1])
        if description == Alert.closeNotify.rawValue {
            hasEnded = true
        } else if description != Alert.userCanceled.rawValue, is13 || level == Self.fatalLevel {
            throw .alerted(description)
        }
    }

    // MARK: Sending

    /// Encrypts data.
    /// - Parameters:
    ///   - sliceCount: How many slices of data there are.
    ///   - byteLimit: Most bytes of data to take.
    ///   - output: Gets the records.
    ///   - slice: Gives a slice by its index; valid and unchanged during the call.
    /// - Returns: How many bytes were taken, from the first slice on.
    /// - Throws: ``TLSError/machine``; the connection cannot go on.
    /// - Precondition: ``isEstablished``.
    package func seal(
        sliceCount: Int, byteLimit: Int, to output: SealedBuffer, slice: (Int) -> UnsafeRawBufferPointer
    ) throws(TLSError) -> Int {
        var (index, offset, total) = (0, 0, 0)
        while index < sliceCount, total < byteLimit {
            try updateUsedKeys(output)
            let recordByteLimit = min(RecordLimits.dataByteCount, byteLimit - total)
            let current = unsafe slice(index)
            let available = current.count - offset
            if available >= recordByteLimit || index + 1 == sliceCount {
                // Straight from where the data is.
                let count = min(available, recordByteLimit)
                let data = unsafe UnsafeRawBufferPointer(rebasing: current[offset..<offset + count])
                if count > 0 { try unsafe seal(RecordType.applicationData, data, to: output) }
                total += count
                offset += count
                if offset == current.count { (index, offset) = (index + 1, 0) }
            } else {
                let used = try unsafe sealGathered(
                    sliceCount, &index, &offset, recordByteLimit, output, slice)
                total += used
            }
        }
        return total
    }

    /// Makes one record of several slices, which are copied to where it is encrypted in place.
    private func sealGathered(
        _ sliceCount: Int, _ index: inout Int, _ offset: inout Int, _ byteLimit: Int, _ output: SealedBuffer,
        _ slice: (Int) -> UnsafeRawBufferPointer
    ) throws(TLSError) -> Int {
        guard let dataOffset = writing?.dataOffset else { throw .machine }
        var (count, isSealed) = (0, false)
        var (nextIndex, nextOffset) = (index, offset)
        unsafe output.append(atMost: byteLimit + RecordLimits.overheadByteCount) { record in
            // In bounds: at most `byteLimit` bytes from `dataOffset` on, which is part of the overhead.
            let start = unsafe record + dataOffset
            while nextIndex < sliceCount, count < byteLimit {
                let current = unsafe slice(nextIndex)
                let piece = min(current.count - nextOffset, byteLimit - count)
                if piece > 0, let source = current.baseAddress {
                    unsafe (start + count).copyMemory(from: source + nextOffset, byteCount: piece)
                }
                count += piece
                nextOffset += piece
                if nextOffset == current.count { (nextIndex, nextOffset) = (nextIndex + 1, 0) }
            }
            guard count > 0 else {
                isSealed = true
                return 0
            }
            let data = unsafe UnsafeRawBufferPointer(start: start, count: count)
            let size = unsafe writing?.seal(RecordType.applicationData, data, to: record)
            isSealed = size != nil
            return size ?? 0
        }
        guard isSealed else {
            hasFailed = true
            throw .machine
        }
        (index, offset) = (nextIndex, nextOffset)
        return count
    }

    private func seal(_ type: UInt8, _ data: UnsafeRawBufferPointer, to output: SealedBuffer) throws(TLSError)
    {
        var isSealed = false
        unsafe output.append(atMost: data.count + RecordLimits.overheadByteCount) { record in
            let size = unsafe writing?.seal(type, data, to: record)
            isSealed = size != nil
            return size ?? 0
        }
        guard isSealed else {
            hasFailed = true
            throw .machine
        }
    }

    private func seal(_ type: UInt8, _ bytes: [UInt8], to output: SealedBuffer) throws(TLSError) {
        var failure: TLSError?
        unsafe bytes.withUnsafeBytes { bytes in
            do throws(TLSError) { try unsafe seal(type, bytes, to: output) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    /// Data is not sent under keys that are used up (RFC 8446 §5.5).
    private func updateUsedKeys(_ output: SealedBuffer) throws(TLSError) {
        guard let sequence = writing?.sequence, sequence >= recordLimitOfKeys, facts?.version == .tls13
        else { return }
        try updateWritingKeys(output)
    }

    private func updateWritingKeys(_ output: SealedBuffer) throws(TLSError) {
        try seal(RecordType.handshake, PostHandshakeReader.update, to: output)
        try writing?.update()
    }

    // MARK: Alerts

    private static let warningLevel: UInt8 = 1
    private static let fatalLevel: UInt8 = 2

    private func seal(warning alert: Alert, to output: SealedBuffer) throws(TLSError) {
        try seal(RecordType.alert, [Self.warningLevel, alert.rawValue], to: output)
    }

    /// Says that no more data is sent (close_notify); the peer may go on sending. Does nothing before the
    /// connection is established, after a failure, and the second time.
    package func close(to output: SealedBuffer) {
        guard isEstablished else { return }
        // Without an alert the peer takes the end for a cut: libcrypto has no memory.
        try? seal(warning: .closeNotify, to: output)
        hasClosed = true
    }

    /// A fatal alert before there are keys. Its version is the one that all versions write (RFC 8446 §5.1).
    private func append(plain alert: Alert, to output: SealedBuffer) {
        let record: [UInt8] = [RecordType.alert, 3, 3, 0, 2, Self.fatalLevel, alert.rawValue]
        unsafe output.append(atMost: record.count) { target in
            // In bounds: `output` has space for as many bytes.
            unsafe target.copyMemory(from: record, byteCount: record.count)
            return record.count
        }
    }

    private func fail(_ error: TLSError, _ replies: SealedBuffer) {
        let alert: Alert? =
            switch error {
            case .violation(let alert): alert
            case .tooManyControlRecords: .unexpectedMessage
            case .machine: .internalError
            // libssl has its own; a peer that has sent an alert gets none.
            case .plainHTTP, .handshake, .handshakeTooLong, .alerted: nil
            }
        if let alert, isEstablished {
            try? seal(RecordType.alert, [Self.fatalLevel, alert.rawValue], to: replies)
        } else if case .violation(let alert) = error, facts == nil {
            // A ClientHello that is too long: nothing is encrypted yet.
            append(plain: alert, to: replies)
        }
        hasFailed = true
        handshake = nil
        partial = []
    }
}
