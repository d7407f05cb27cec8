import PandoTLS

/// Memory that the secure stages of a loop use in turn.
@safe
final class SecureBuffers {
    /// Most bytes of one read: with the smallest records, a few milliseconds of work.
    static let receivedByteCount = 128 << 10

    let received: UnsafeMutableRawBufferPointer
    let sealed = SealedBuffer(capacity: 80 << 10)

    init() {
        unsafe received = .allocate(
            byteCount: TLSConnection.headroomByteCount + Self.receivedByteCount, alignment: 64)
    }

    deinit {
        unsafe received.deallocate()
    }
}
