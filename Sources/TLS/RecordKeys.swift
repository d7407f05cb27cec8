import CTLS

/// The keys of one direction. Confined to the connection's thread.
@safe
final class RecordKeys {
    private let keys: OpaquePointer

    /// Takes the keys over, and frees them.
    init(adopting keys: OpaquePointer) {
        unsafe self.keys = keys
    }

    deinit {
        unsafe pando_record_keys_free(keys)
    }

    /// Data that was found in a record.
    struct Opened {
        let type: UInt8
        /// In the memory of the record.
        let data: Range<Int>
    }

    /// Decrypts a whole record in place.
    /// - Throws: The alert that is due.
    func open(_ record: UnsafeMutableRawBufferPointer) throws(TLSError) -> Opened {
        guard let start = record.baseAddress else { throw .violation(.decodeError) }
        var (type, offset, count) = (UInt8(0), 0, 0)
        // In bounds: it reads and writes `record.count` bytes from `start` on.
        let result = unsafe pando_record_open(
            keys, start.assumingMemoryBound(to: UInt8.self), record.count, &type, &offset, &count)
        switch result {
        case 0: return Opened(type: type, data: offset..<offset + count)
        case PANDO_RECORD_TOO_LONG: throw .violation(.recordOverflow)
        case PANDO_RECORD_WITHOUT_TYPE: throw .violation(.unexpectedMessage)
        default: throw .violation(.badRecordMAC)
        }
    }

    /// Where a record has its data, from its beginning.
    var dataOffset: Int { unsafe RecordLimits.headerByteCount + pando_record_prefix_byte_count(keys) }

    /// Writes a record.
    /// - Parameters:
    ///   - data: At most 16384 bytes, elsewhere or at ``dataOffset`` in `record`.
    ///   - record: Has space for the data and ``RecordLimits/overheadByteCount`` more.
    /// - Returns: Its size; nil where the keys are used up, or libcrypto has no memory.
    func seal(_ type: UInt8, _ data: UnsafeRawBufferPointer, to record: UnsafeMutableRawPointer) -> Int? {
        let byteCount = unsafe pando_record_seal(
            keys, type, data.baseAddress, data.count, record.assumingMemoryBound(to: UInt8.self))
        return byteCount > 0 ? Int(byteCount) : nil
    }

    /// Goes on to the next keys (RFC 8446 §7.2).
    func update() throws(TLSError) {
        guard unsafe pando_record_keys_update(keys) == 0 else { throw .machine }
    }

    /// The number of the next record under these keys.
    var sequence: UInt64 { unsafe pando_record_sequence(keys) }

    /// Blocks of 16 bytes that records under these keys have taken.
    var blockCount: UInt64 { unsafe pando_record_block_count(keys) }
}
