import CSystem

/// Has the pages of the heap ready before they are needed: for a command that builds one large tree and ends.
/// A page that is touched for the first time costs half a microsecond; here another thread touches it.
///
/// From then on, until the process ends, the heap grows in large steps and gives nothing back. The heap is
/// that of the process's first thread, which must be the one that builds the tree; what others allocate lies
/// elsewhere.
package struct HeapPrefaulter: ~Copyable {
    private let bell: WakeupEvent
    private let mailbox: Mailbox<Order>
    private let thread: NamedThread
    /// Where the heap ended when it was last looked at.
    private var end: UInt64

    private enum Order: Sendable {
        case touch(Range<UInt64>)
        case stop
    }

    /// How far the heap grows at once: at most so much memory is taken for nothing.
    private static let stepByteCount: Int32 = 16 << 20
    /// What is larger is no part of the heap: the greatest that glibc takes (`DEFAULT_MMAP_THRESHOLD_MAX`).
    private static let mapByteCount: Int32 = 32 << 20
    /// Touched at once.
    private static let pieceByteCount = 1 << 20

    /// Nil where the system cannot (Linux 5.14 can), or where there is no thread or descriptor for it: then
    /// nothing has changed.
    package init?() {
        guard pando_heap_can_touch() == 0 else { return nil }
        guard let bell = try? WakeupEvent() else { return nil }
        let mailbox = Mailbox<Order>(ringing: bell)
        let thread = try? NamedThread.start("pando-memory") {
            var batch: [Order] = []
            while true {
                bell.wait()
                mailbox.drain(into: &batch)
                for order in batch {
                    guard case .touch(let range) = order else { return }
                    Self.touch(range)
                }
                batch.removeAll(keepingCapacity: true)
            }
        }
        guard let thread else { return nil }
        (self.bell, self.mailbox, self.thread) = (bell, mailbox, thread)
        pando_heap_only_grow(Self.stepByteCount, Self.mapByteCount)
        end = pando_heap_end()
    }

    /// Looks whether the heap has grown: cheap, and to be called often while it does.
    package mutating func advance() {
        let now = pando_heap_end()
        if now > end { mailbox.post(.touch(end..<now)) }
        end = now
    }

    /// Ends the thread.
    package consuming func stop() {
        mailbox.post(.stop)
        thread.join()
    }

    private static func touch(_ range: Range<UInt64>) {
        var start = range.lowerBound
        while start < range.upperBound {
            let byteCount = Int(min(UInt64(pieceByteCount), range.upperBound - start))
            guard pando_heap_touch(start, byteCount) == 0 else { return }
            start += UInt64(byteCount)
        }
    }
}
