import CTLS

//  record   │ type │ version │ length │ payload │     RFC 8446 §5.1
//  bytes       1        2        2      length

/// Types of records.
package enum RecordType {
    static let changeCipherSpec: UInt8 = 20
    static let alert: UInt8 = 21
    package static let handshake: UInt8 = 22
    static let applicationData: UInt8 = 23
}

/// Numbers of the record layer.
package enum RecordLimits {
    /// Bytes of a record's header.
    static let headerByteCount = Int(PANDO_RECORD_HEADER_BYTE_COUNT)
    /// Most bytes of data in a record (RFC 8446 §5.1).
    package static let dataByteCount = 16384
    /// Most bytes of a payload: TLS 1.3 (RFC 8446 §5.2). TLS 1.2 allows more (RFC 5246 §6.2.3), for ciphers
    /// that are not offered.
    static let payloadByteCount = dataByteCount + 256
    /// Most bytes that a record has beyond its data.
    package static let overheadByteCount = Int(PANDO_RECORD_OVERHEAD_BYTE_COUNT)
}

/// The first bytes of a record.
struct RecordHeader {
    let type: UInt8
    let payloadByteCount: Int
    /// Whether this can begin a record at all.
    let isValid: Bool

    /// - Parameter bytes: At least five.
    init(_ bytes: UnsafeRawBufferPointer) {
        // In bounds: the caller has five bytes.
        type = unsafe bytes[0]
        payloadByteCount = unsafe Int(bytes[3]) << 8 | Int(bytes[4])
        // Every version says 3 in the first byte.
        isValid = unsafe (20...23).contains(type) && bytes[1] == 3
    }

    var byteCount: Int { RecordLimits.headerByteCount + payloadByteCount }
}
