import Logging
import PandoReactor
import PandoStorage
import PandoTLS
import PandoTime

/// Reads the certificates of TLS again, when their files have changed and when it is asked to, on a thread
/// of its own: a directory may have thousands, and each that has changed takes about a millisecond.
///
/// New connections get the former certificates until all are read. Its niceness is 10: busy threads get most
/// of the processor time.
final class CertificateWatcher: Sendable {
    private static let niceness = 10

    private struct Request: Sendable {
        let done: @Sendable () -> Void
    }

    private let thread: WorkerThread<Request>

    /// Begins to look whether the files have changed.
    /// - Throws: ``SocketError`` where the process has no free descriptor or thread.
    init(_ certificates: CertificateStore, _ logger: Logger) throws(SocketError) {
        thread = try WorkerThread("pando-certs", niceness: Self.niceness)
        try thread.start { queue in
            var requests: [Request] = []
            var nextCheck = MonotonicTime.now + CertificateStore.checkInterval
            while queue.receive(into: &requests, timeout: max(Duration.zero, nextCheck - MonotonicTime.now)) {
                if !requests.isEmpty {
                    let messages = certificates.reload(at: wallTime() / 1000, while: { !queue.isStopping })
                    for message in messages { logger.log(message) }
                    for request in requests { request.done() }
                    requests.removeAll(keepingCapacity: true)
                }
                guard MonotonicTime.now >= nextCheck else { continue }
                let messages = certificates.reloadIfChanged(
                    at: wallTime() / 1000, while: { !queue.isStopping })
                for message in messages { logger.log(message) }
                nextCheck = MonotonicTime.now + CertificateStore.checkInterval
            }
        }
    }

    /// Reads all files again.
    /// - Parameter done: Called on the thread afterwards; at once where that has ended.
    func reload(_ done: @escaping @Sendable () -> Void) {
        if !thread.post(Request(done: done)) { done() }
    }

    /// Gives up what it reads, and ends the thread.
    func stop() { thread.stop() }
}
