import COperatingSystem

/// Memory that the channels of a loop use in turn: what they read into, and where their output waits.
/// Confined to the loop.
@safe
final class LoopBuffers {
    /// Channels read into this. The bytes are valid until the next read.
    let received: UnsafeMutableRawBufferPointer
    /// Most bytes of one read of any channel; less while memory is short.
    var readByteLimit = Int.max
    /// What is given to one system call.
    let slices: UnsafeMutableBufferPointer<pando_slice>
    /// What a channel writes during its read event, in order; it is sent before the channel's queue
    /// (``ChannelOutput/cork(in:)``).
    let cork: UnsafeMutableRawBufferPointer
    var corkedByteCount = 0
    /// What waits of all other output.
    var chunks = ChunkArena()

    /// Allocated for the first connection with TLS.
    private(set) lazy var secure = SecureBuffers()
    /// Bytes of memory of TLS for records and handshakes that are not complete, and for records that are not
    /// sent.
    var secureByteCount = 0

    init(_ configuration: LoopConfiguration) {
        precondition(configuration.receiveBufferByteCount > 0 && configuration.corkByteCount > 0)
        unsafe received = .allocate(byteCount: configuration.receiveBufferByteCount, alignment: 64)
        unsafe cork = .allocate(byteCount: configuration.corkByteCount, alignment: 64)
        unsafe slices = .allocate(capacity: Int(PANDO_SLICE_LIMIT))
        unsafe slices.initialize(repeating: unsafe pando_slice())
    }

    deinit {
        unsafe received.deallocate()
        unsafe cork.deallocate()
        unsafe slices.deallocate()
    }

    /// Bytes of memory that unsent output of all channels takes, and what TLS holds of their input; shared
    /// bytes are not counted. O(1).
    var ownedByteCount: Int { chunks.copiedByteCount + secureByteCount }
}
