import Glibc
import PandoMetrics
import PandoReactor
import PandoTime
import Synchronization

/// Writes the lines of the log to standard error: whole, and in order.
///
/// Standard error is often a pipe: a thread that writes to it waits for the reader of the log. And clients
/// cause lines, with the access log one for each request. So the lines of a server go through a queue to a
/// thread that only writes them (``start(reporting:)``), and no other thread waits:
///
///     any thread ──append──▶ queue ──pando-log──▶ standard error
///                            │    0 … 1 MiB   lines of requests, and all others
///                            │    1 … 2 MiB   only others: a flood of requests drops none of them
///
/// Lines that find no place are dropped and counted; once there is place, the log says how many. ``flush()``
/// and ``stop()`` write what is queued. They wait for ``flushTimeout`` at most, so that the process ends,
/// such as after a failed disk, also where the reader of the log hangs.
///
/// Before ``start(reporting:)`` and after ``stop()``, while no client is served, each line is written by the
/// thread that appends it. Where standard error takes nothing for ``flushTimeout``, that line is dropped,
/// and so is each later one that cannot be written without waiting.
package final class LogWriter: Sendable {
    private struct Queue {
        var bytes: [UInt8] = []
        var unreportedCount = 0
        /// The thread runs; otherwise nothing is queued.
        var isRunning = false
    }

    private struct Output {
        /// What the thread is writing. Its memory is used again.
        var batch: [UInt8] = []
        /// A line was dropped, and none was written since.
        var isStalled = false
        /// The last line was written in part.
        var isInsideLine = false
    }

    /// Bytes of the queue up to which lines of requests are queued.
    static let requestByteLimit = 1 << 20
    /// Bytes of the queue. As much again may be with the thread.
    static let byteLimit = 2 << 20
    /// How long the thread waits for more lines before it writes: so it wakes up a hundred times a second at
    /// most.
    private static let gatherMicroseconds: UInt32 = 10_000
    /// The longest that the beginning and the end of the process, or a fatal error, wait for standard error.
    package static let flushTimeout: Duration = .seconds(3)
    /// Between two reports of dropped lines. Of lines that differ in a number only, five are logged in a
    /// minute.
    private static let reportInterval: Duration = .seconds(15)
    /// So much is written without waiting once poll(2) finds a pipe writable (pipe(7), PIPE_BUF).
    private static let pieceByteCount = 4096
    /// Between two looks at the time while standard error takes nothing.
    private static let pollMilliseconds: Int32 = 100

    /// Lines that were dropped.
    package var droppedLineCount: UInt64 { droppedLines.value }

    private let droppedLines = Counter()
    private let descriptor: Int32
    private let timeout: Duration
    private let queue = Mutex(Queue())
    /// Held while bytes are written, so that lines are not mixed.
    private let output = Mutex(Output())
    private let wakeup: WakeupEvent
    private let thread = Mutex<NamedThread?>(nil)
    private let report = Mutex<@Sendable (_ count: Int) -> Void>({ _ in })
    /// Until then the thread may write, once it was asked to end.
    private let end = Mutex<MonotonicTime?>(nil)

    /// - Parameters:
    ///   - descriptor: Standard error's, or another for tests. Not closed.
    ///   - timeout: As ``flushTimeout``.
    /// - Throws: EMFILE, ENFILE or ENOMEM.
    package init(descriptor: Int32 = STDERR_FILENO, timeout: Duration = flushTimeout) throws(SocketError) {
        self.descriptor = descriptor
        self.timeout = timeout
        wakeup = try WakeupEvent()
    }

    // MARK: Any thread

    /// Queues a line. Waits for standard error only where the thread does not run: ``flushTimeout`` at most.
    /// - Parameters:
    ///   - line: With its line feed.
    ///   - isOfRequest: It is one of the access log.
    package func append(_ line: [UInt8], isOfRequest: Bool = false) {
        let isQueued = queue.withLock { queue in
            guard queue.isRunning else { return false }
            let limit = isOfRequest ? Self.requestByteLimit : Self.byteLimit
            if queue.bytes.count + line.count <= limit {
                queue.bytes.append(contentsOf: line)
            } else {
                queue.unreportedCount += 1
                // One thread at a time: that with the lock.
                droppedLines.add()
            }
            return true
        }
        if isQueued { wakeup.signal() } else { output.withLock { write(line, &$0) } }
    }

    /// Writes a line without the thread.
    private func write(_ line: [UInt8], _ output: inout Output) {
        let deadline: MonotonicTime = output.isStalled ? .now : .now + timeout
        var bytes = output.isInsideLine ? [UInt8(ascii: "\n")] : []
        bytes += line
        let writtenCount = write(bytes, until: deadline)
        output.isStalled = writtenCount < bytes.count
        guard output.isStalled else { return output.isInsideLine = false }
        // Nothing written: what was written in part before still is.
        if writtenCount > 0 { output.isInsideLine = true }
        queue.withLock { _ in droppedLines.add() }
    }

    /// Writes what is queued, such as before the process ends. Waits ``flushTimeout`` at most; what standard
    /// error has not taken by then stays queued. No other thread waits meanwhile.
    package func flush() {
        let deadline = MonotonicTime.now + timeout
        while MonotonicTime.now < deadline {
            // The thread may hold it, and wait for standard error.
            let isWritten = output.withLockIfAvailable { writeQueued(&$0.batch, until: deadline) } != nil
            if isWritten { return }
            usleep(1000)
        }
    }

    // MARK: The thread

    /// Starts the thread, unless it runs. From now on no thread that appends waits, until ``stop()``.
    /// - Parameter report: Called on the thread after lines were dropped, to append a line that says so.
    /// - Throws: ``SocketError`` if the system starts no thread.
    package func start(reporting report: @escaping @Sendable (_ count: Int) -> Void) throws(SocketError) {
        guard thread.withLock({ $0 == nil }) else { return }
        self.report.withLock { $0 = report }
        let started = try NamedThread.start("pando-log") { [self] in run() }
        thread.withLock { $0 = started }
        queue.withLock { $0.isRunning = true }
    }

    /// Writes what is queued and ends the thread. Waits ``flushTimeout`` at most. Lines that are appended
    /// later are written at once. Does nothing where no thread runs.
    package func stop() {
        guard let thread = thread.withLock({ $0.take() }) else { return }
        end.withLock { $0 = .now + timeout }
        wakeup.signal()
        thread.join()
        queue.withLock { $0.isRunning = false }
        output.withLock { writeQueued(&$0.batch, until: nil) }
        reportDroppedLines()
        end.withLock { $0 = nil }
    }

    private func run() {
        var nextReport = MonotonicTime.now
        while end.withLock({ $0 == nil }) {
            let waits = queue.withLock { $0.unreportedCount > 0 }
            wakeup.wait(timeout: waits ? nextReport - .now : nil)
            output.withLock { writeQueued(&$0.batch, until: nil) }
            if MonotonicTime.now >= nextReport, reportDroppedLines() {
                nextReport = .now + Self.reportInterval
            }
            usleep(Self.gatherMicroseconds)
        }
    }

    /// Appends what is said of lines that were dropped since the last report: not while the output is held.
    /// - Returns: Whether there were any. False also where so much is queued that the report might be dropped
    ///   itself.
    @discardableResult
    private func reportDroppedLines() -> Bool {
        let count = queue.withLock { queue in
            queue.bytes.count > Self.requestByteLimit ? 0 : exchange(&queue.unreportedCount, with: 0)
        }
        guard count > 0 else { return false }
        let report = report.withLock { $0 }
        report(count)
        return true
    }

    private func writeQueued(_ batch: inout [UInt8], until deadline: MonotonicTime?) {
        queue.withLock { swap(&$0.bytes, &batch) }
        let writtenCount = write(batch, until: deadline)
        if writtenCount < batch.count {
            // What standard error has not taken in time is written before what came meanwhile.
            queue.withLock { $0.bytes.insert(contentsOf: batch[writtenCount...], at: 0) }
        }
        batch.removeAll(keepingCapacity: true)
    }

    /// - Parameter deadline: nil for none but that of ``stop()``. At least one look whether standard error
    ///   takes something is made, without waiting.
    /// - Returns: How many bytes were written. All of them where standard error is no more, or fails: a log
    ///   that cannot be written is no reason to stop the server.
    @discardableResult
    private func write(_ bytes: [UInt8], until deadline: MonotonicTime?) -> Int {
        unsafe bytes.withUnsafeBytes { bytes in
            var start = 0
            while start < bytes.count {
                let deadline = deadline ?? end.withLock { $0 }
                let isOver = deadline.map { MonotonicTime.now >= $0 } ?? false
                var event = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                let ready = unsafe poll(&event, 1, isOver ? 0 : Self.pollMilliseconds)
                if ready == 0 || ready < 0 && errno == EINTR {
                    if isOver { return start }
                    continue
                }
                guard ready > 0, Int32(event.revents) == POLLOUT else { return bytes.count }
                let count = unsafe Glibc.write(
                    descriptor, bytes.baseAddress?.advanced(by: start),
                    min(Self.pieceByteCount, bytes.count - start))
                if count < 0, errno != EINTR, errno != EAGAIN { return bytes.count }
                start += max(0, count)
            }
            return start
        }
    }
}
