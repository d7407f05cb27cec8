import Glibc
import Logging
import PandoJournal
import PandoReactor

/// The segment thread: makes the file of the next segment while the journal goes on in the present one
/// (`PreparedSegment`).
///
/// A full disk, or the lack of a descriptor, ends one attempt; any other failure of the disk ends the
/// process, as a failure of the journal does.
final class SegmentThread: Sendable {
    /// Its messages are the bytes of files to make.
    private let thread: WorkerThread<Int>
    /// Gives up the attempt under way.
    private let cancelled = CancellationFlag()

    /// Between two steps the journal has the disk to itself, for about as long as a step takes.
    private static let pause: Duration = .milliseconds(1)

    /// - Parameters:
    ///   - disk: Used by this thread alone.
    ///   - finished: Called on the thread after each attempt, with the bytes of the file; nil where it was
    ///     given up.
    /// - Throws: ``SocketError`` where the process has no free descriptor or thread.
    init<Storage: Disk>(
        on disk: Storage, logger: Logger, finished: @escaping @Sendable (_ byteCount: Int?) -> Void
    ) throws(SocketError) {
        thread = try WorkerThread("pando-segment")
        try thread.start { [cancelled] queue in
            while let byteCount = queue.next() {
                do throws(DiskFailure) {
                    let isMade = try PreparedSegment.make(
                        byteCount: byteCount, on: disk,
                        noteShortage: {
                            logger.info(
                                "the next segment of the journal cannot be prepared ahead; it is made when it is needed: \($0)"
                            )
                        }
                    ) {
                        queue.pause(for: Self.pause)
                        return cancelled.isSet || queue.isStopping
                    }
                    finished(isMade ? byteCount : nil)
                } catch {
                    logger.critical(
                        "the next segment of the journal cannot be written, so the disk cannot be relied on; stopping at once with exit code 74: \(error)"
                    )
                    _exit(74)
                }
            }
        }
    }

    /// Begins to make a file of this many bytes. The journal thread; one at a time.
    func prepare(byteCount: Int) {
        cancelled.isSet = false
        thread.post(byteCount)
    }

    /// Gives up the attempt under way. The journal thread.
    func cancel() {
        cancelled.isSet = true
    }

    /// Gives up the attempt under way, and ends the thread. Any thread.
    func stop() { thread.stop() }
}
