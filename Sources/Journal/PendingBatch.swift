import CSystem
import PandoBytes

/// Records accepted and not yet written, as the bytes they will be.
///
/// Headers, small payloads and padding lie one after another in one reused array; a large payload stays where
/// it is and is named in `large`, so it goes to the kernel from there.
struct PendingBatch {
    private var bytes: [UInt8] = []
    /// Payloads that are not in `bytes`. Each belongs right behind the header that ends at its offset.
    private var large: [(byteOffset: Int, payload: SharedBytes)] = []
    /// Everything, large payloads included.
    private(set) var byteCount = 0

    /// Up to here copying is cheaper than one more piece in the gathered write.
    static let inlineByteLimit = 32 << 10
    /// An array that grew beyond this in a burst is given back.
    private static let keptCapacity = 4 << 20

    var isEmpty: Bool { byteCount == 0 }

    /// One copy of `payload`, whatever its size.
    mutating func append(_ header: RecordHeader, payload: RawSpan) {
        if payload.byteCount > Self.inlineByteLimit {
            append(header, shared: SharedBytes(payload))
            return
        }
        precondition(payload.byteCount == Int(header.payloadByteCount))
        let byteCount = header.recordByteCount
        bytes.append(room: byteCount) { writer in
            writer.append(header)
            writer.append(payload)
            for _ in writer.count..<byteCount { writer.append(0) }
        }
        self.byteCount += byteCount
    }

    /// No copy of a large `payload`.
    mutating func append(_ header: RecordHeader, shared payload: SharedBytes) {
        precondition(payload.count == Int(header.payloadByteCount))
        let start = bytes.count
        bytes.append(room: JournalFormat.recordHeaderByteCount) { $0.append(header) }
        if payload.count > 0 { large.append((bytes.count, payload)) }
        let padding = header.recordByteCount - (bytes.count - start) - payload.count
        bytes.append(contentsOf: repeatElement(0, count: padding))
        byteCount += header.recordByteCount
    }

    /// Puts mark and checksum into every header, last thing before the write: the mark is then as high as can
    /// be.
    mutating func seal(seed: UInt32, durable: SequenceNumber) {
        var offset = 0
        var nextLarge = 0
        while offset < bytes.count {
            bytes.replace(littleEndian: durable.rawValue, at: offset + 32)
            let payloadByteCount = Int(bytes.rawSpan.littleEndian(at: offset + 4, as: UInt32.self))
            let payloadOffset = offset + JournalFormat.recordHeaderByteCount
            let padding = JournalFormat.paddingByteCount(payloadByteCount: payloadByteCount)
            let end: Int
            var checksum = seed
            if nextLarge < large.count, large[nextLarge].byteOffset == payloadOffset {
                let payload = large[nextLarge].payload
                end = payloadOffset + padding
                checksum = crc32c(bytes.rawSpan.extracting(offset + 4..<payloadOffset), continuing: checksum)
                // `payload` holds its bytes until after the call.
                checksum = withExtendedLifetime(payload) {
                    unsafe pando_crc32c(checksum, payload.baseAddress, payload.count)
                }
                checksum = crc32c(bytes.rawSpan.extracting(payloadOffset..<end), continuing: checksum)
                nextLarge += 1
            } else {
                end = payloadOffset + payloadByteCount + padding
                checksum = crc32c(bytes.rawSpan.extracting(offset + 4..<end), continuing: checksum)
            }
            bytes.replace(littleEndian: checksum, at: offset)
            offset = end
        }
    }

    /// Lends the whole batch, in file order.
    func withGathered<Failure: Error>(_ body: (GatheredBytes) throws(Failure) -> Void) throws(Failure) {
        // The array and the payloads are ours and untouched until `body` returns.
        try unsafe bytes.rawSpan.withUnsafeBytes { (all: UnsafeRawBufferPointer) throws(Failure) in
            guard let base = all.baseAddress else { return }
            var pieces: [pando_disk_piece] = unsafe []
            var start = 0
            for (byteOffset, payload) in large {
                unsafe pieces.append(pando_disk_piece(base: base + start, count: byteOffset - start))
                unsafe pieces.append(pando_disk_piece(base: payload.baseAddress, count: payload.count))
                start = byteOffset
            }
            unsafe pieces.append(pando_disk_piece(base: base + start, count: all.count - start))
            let gathered = unsafe GatheredBytes(pieces: pieces)
            precondition(gathered.byteCount == byteCount, "the pieces are not the batch")
            try body(gathered)
        }
    }

    mutating func removeAll() {
        bytes.removeAll(keepingCapacity: bytes.capacity <= Self.keptCapacity)
        large.removeAll(keepingCapacity: true)
        byteCount = 0
    }
}

extension ByteWriter {
    fileprivate mutating func append(_ header: RecordHeader) {
        let words = header.words
        // Integers have no padding: every byte is initialised.
        append(unsafe words.span.bytes)
    }
}
