import COperatingSystem

/// Makes the pages of the heap present before they are needed: for a command that builds one large tree and
/// ends. The first access to a page costs half a microsecond; here another thread makes it.
///
/// From then on, until the process ends, the heap grows in large steps and is never trimmed. The heap is that
/// of the process's first thread, which must be the one that builds the tree; other threads allocate from
/// other heaps.
package struct HeapPrefaulter: ~Copyable {
    /// Gets the address ranges by which the heap has grown.
    private let worker: WorkerThread<Range<UInt64>>
    /// The end of the heap at the last ``advance()``.
    private var end: UInt64

    /// How far the heap grows at once: at most so much memory is made present and never used.
    private static let stepByteCount: Int32 = 16 << 20
    /// Larger blocks are mapped outside the heap: the largest value that glibc accepts
    /// (`DEFAULT_MMAP_THRESHOLD_MAX`).
    private static let mapByteCount: Int32 = 32 << 20
    /// Bytes that one system call makes present.
    private static let pieceByteCount = 1 << 20

    /// - Returns: nil where the system cannot do it (Linux 5.14 can), or gives no thread or descriptor: then
    ///   nothing has changed.
    package init?() {
        guard pando_heap_can_populate() == 0 else { return nil }
        guard let worker = try? Self.startWorker() else { return nil }
        self.worker = worker
        pando_heap_grow_in_steps(Self.stepByteCount, Self.mapByteCount)
        end = pando_heap_end()
    }

    /// Has the thread make present what the heap has grown by since the last call. Cheap: call it often while
    /// the heap grows.
    package mutating func advance() {
        let newEnd = pando_heap_end()
        if newEnd > end { worker.post(end..<newEnd) }
        end = newEnd
    }

    /// Ends the thread, after it has made present what was asked for.
    package consuming func stop() {
        worker.stop()
    }

    private static func startWorker() throws(SocketError) -> WorkerThread<Range<UInt64>> {
        let worker = try WorkerThread<Range<UInt64>>("pando-memory")
        try worker.start { queue in
            while let range = queue.next() { touch(range) }
        }
        return worker
    }

    private static func touch(_ range: Range<UInt64>) {
        var start = range.lowerBound
        while start < range.upperBound {
            let byteCount = Int(min(UInt64(pieceByteCount), range.upperBound - start))
            guard pando_heap_populate(start, byteCount) == 0 else { return }
            start += UInt64(byteCount)
        }
    }
}
