import PandoBytes
import PandoJournal
import PandoReactor
import Synchronization

/// Writes one checkpoint with two threads: the caller's makes the blocks, one of its own writes and syncs
/// them. For who has nothing else to do meanwhile: an import. In memory are a few blocks of a mebibyte or
/// two.
///
///     var pipe = try CheckpointPipe(header, on: disk)
///     try pipe.append(…)                  // many
///     try pipe.finish()                   // now it is durable, and has its name
///
/// What the disk says is heard at the next block, at the latest at the end. One of ``finish()`` and
/// ``abandon()`` must be called: the thread waits for it.
struct CheckpointPipe: ~Copyable {
    private var encoder: CheckpointEncoder
    private let belt: BlockQueue
    private let thread: NamedThread
    /// Bytes of the blocks that are made.
    private var blockByteCount = 0

    /// Between the two threads.
    private final class BlockQueue: Sendable {
        struct State {
            /// Oldest first.
            var blocks: [[UInt8]] = []
            var byteCount = 0
            var end: End?
            /// The first one; nothing is written after it.
            var failure: DiskFailure?
        }

        enum End {
            /// Behind these bytes.
            case finish([UInt8])
            case abandon
        }

        let state = Mutex(State())
        /// Rung for the writing thread.
        let filled: WakeupEvent
        /// Rung for the other.
        let emptied: WakeupEvent

        init() throws(SocketError) {
            filled = try WakeupEvent()
            emptied = try WakeupEvent()
        }
    }

    /// Bytes that wait to be written, or one block: one that ends with a long text may have more.
    private static let waitingByteLimit = 4 << 20
    /// Bytes between two syncs: no log waits for the disk, and the last sync finds little to do.
    private static let syncByteCount = 8 << 20

    /// - Parameters:
    ///   - disk: Used by the other thread alone until the end.
    ///   - syncByteCount: Bytes between two syncs.
    /// - Throws: For want of a thread or a descriptor; what the disk says is heard later.
    init(
        _ header: CheckpointHeader, on disk: some Disk, syncByteCount: Int = Self.syncByteCount
    ) throws(DiskFailure) {
        encoder = CheckpointEncoder(header)
        (belt, thread) = try Self.start(header, on: disk, syncByteCount)
    }

    private static func start(
        _ header: CheckpointHeader, on disk: some Disk, _ syncByteCount: Int
    ) throws(DiskFailure) -> (BlockQueue, NamedThread) {
        do throws(SocketError) {
            let belt = try BlockQueue()
            let thread = try NamedThread.start("pando-write") {
                do throws(DiskFailure) {
                    try write(header, on: disk, syncByteCount, from: belt)
                } catch {
                    belt.state.withLock { $0.failure = error }
                    belt.emptied.signal()
                }
            }
            return (belt, thread)
        } catch {
            throw DiskFailure(
                operation: .startThread, path: disk.directory, errorNumber: error.code,
                errorText: error.description)
        }
    }

    /// Bytes so far, the block being filled included.
    var byteCount: Int { blockByteCount + encoder.pendingByteCount }

    /// - Throws: What happened to this block or one before it.
    mutating func append(_ kind: RecordKind, namespace: UInt32, payload: RawSpan) throws(DiskFailure) {
        encoder.append(kind, namespace: namespace, payload: payload)
        guard encoder.isFull else { return }
        let block = encoder.endBlock()
        blockByteCount += block.count
        while true {
            let (hasRoom, failure) = belt.state.withLock { state in
                let hasRoom = state.blocks.isEmpty || state.byteCount + block.count <= Self.waitingByteLimit
                if hasRoom {
                    state.blocks.append(block)
                    state.byteCount += block.count
                }
                return (hasRoom, state.failure)
            }
            if let failure { throw failure }
            if hasRoom { break }
            belt.emptied.wait()
        }
        belt.filled.signal()
    }

    /// Writes the end mark, makes the file durable, and gives it its name. The name is durable, too.
    consuming func finish() throws(DiskFailure) {
        let rest = encoder.finish()
        try end(.finish(rest))
    }

    /// Gives up, and the disk its room back.
    consuming func abandon() throws(DiskFailure) {
        try end(.abandon)
    }

    private consuming func end(_ end: BlockQueue.End) throws(DiskFailure) {
        belt.state.withLock { $0.end = end }
        belt.filled.signal()
        thread.join()
        if let failure = belt.state.withLock({ $0.failure }) { throw failure }
    }

    // MARK: The other thread

    private static func write<Storage: Disk>(
        _ header: CheckpointHeader, on disk: Storage, _ syncByteCount: Int, from belt: BlockQueue
    ) throws(DiskFailure) {
        var file = try CheckpointFile(header, on: disk, syncByteCount: syncByteCount)
        while true {
            let (block, end) = belt.state.withLock { state in
                let block = state.blocks.isEmpty ? nil : state.blocks.removeFirst()
                state.byteCount -= block?.count ?? 0
                return (block, state.end)
            }
            if case .abandon = end { return try file.abandon() }
            if let block {
                belt.emptied.signal()
                do throws(DiskFailure) {
                    try file.write(block)
                } catch {
                    // A full disk gets its room back at once; what stays, the next start removes.
                    try? file.abandon()
                    throw error
                }
            } else if case .finish(let rest) = end {
                _ = try file.finish(rest)
                return
            } else {
                belt.filled.wait()
            }
        }
    }
}
