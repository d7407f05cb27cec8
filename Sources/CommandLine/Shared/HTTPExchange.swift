import Foundation
import FoundationNetworking

//  URLSession reads a response as fast as it comes and queues a call of the delegate for each piece. The
//  queue here runs each call at once, on the session's own thread, and the call waits while more than
//  `pendingByteLimit` has not been taken. So a download of any size takes bounded memory, and TCP slows the
//  server down.
//
//      session's thread ── delegate call ──▶ events, bounded ── next() ──▶ the command's thread

/// One HTTP request and its response, taken piece by piece by the thread that waits for it.
///
/// `@unchecked Sendable`: `condition` guards everything that changes.
final class HTTPExchange: NSObject, URLSessionDataDelegate, @unchecked Sendable {
    enum Event {
        /// The head of the response has arrived; its status code.
        case head(Int)
        case piece(Data)
        /// The response is complete.
        case end
    }

    /// Bytes that wait to be taken.
    private static let pendingByteLimit = 1 << 20

    private let condition = NSCondition()
    private var events: [Event] = []
    private var pendingByteCount = 0
    private var isCancelled = false
    private var outcome: Result<Void, URLError>?
    private var session: URLSession?
    /// Nil for none.
    private let deadline: Date?

    /// Turns proxies off, so that a request and its token go only to the server of `--url`. URLSession on
    /// Linux is libcurl, which would send both to the proxy that `http_proxy`, `https_proxy` or `all_proxy`
    /// names.
    private static let useNoProxy: Void = {
        for name in ["no_proxy", "NO_PROXY"] { unsafe setenv(name, "*", 1) }
    }()

    /// Sends the request.
    /// - Parameters:
    ///   - silence: Seconds without a byte after which the exchange fails.
    ///   - deadline: When it fails, complete or not; nil for never.
    init(_ request: URLRequest, silence: TimeInterval, deadline: Date? = nil) {
        self.deadline = deadline
        super.init()
        _ = Self.useNoProxy
        let configuration = URLSessionConfiguration.ephemeral
        configuration.timeoutIntervalForRequest = silence
        configuration.timeoutIntervalForResource = .greatestFiniteMagnitude
        configuration.httpCookieAcceptPolicy = .never
        configuration.httpShouldSetCookies = false
        configuration.urlCache = nil
        let session = URLSession(configuration: configuration, delegate: self, delegateQueue: InlineQueue())
        self.session = session
        session.dataTask(with: request).resume()
        session.finishTasksAndInvalidate()
    }

    /// Waits for what comes next; ``Event/end`` is the last.
    /// - Throws: Why the response is not there or not complete; `.timedOut` also at the deadline. Then
    ///   ``cancel()`` ends the request.
    func next() throws(URLError) -> Event {
        condition.lock()
        defer { condition.unlock() }
        while events.isEmpty, outcome == nil {
            guard let deadline else {
                condition.wait()
                continue
            }
            guard condition.wait(until: deadline) else { throw URLError(.timedOut) }
        }
        if let deadline, deadline < Date() { throw URLError(.timedOut) }
        if !events.isEmpty {
            let event = events.removeFirst()
            if case .piece(let data) = event {
                pendingByteCount -= data.count
                condition.broadcast()
            }
            return event
        }
        try outcome?.get()
        return .end
    }

    /// Drops what has not been taken, and ends the request.
    func cancel() {
        condition.withLock {
            isCancelled = true
            condition.broadcast()
        }
        session?.invalidateAndCancel()
    }

    private func add(_ event: Event, byteCount: Int = 0) {
        condition.withLock {
            while pendingByteCount > Self.pendingByteLimit, !isCancelled { condition.wait() }
            guard !isCancelled else { return }
            events.append(event)
            pendingByteCount += byteCount
            condition.broadcast()
        }
    }

    // MARK: Delegate

    /// A redirect is the response: the token must not go to another address.
    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping (URLSession.ResponseDisposition) -> Void
    ) {
        add(.head((response as? HTTPURLResponse)?.statusCode ?? 0))
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        add(.piece(data), byteCount: data.count)
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        condition.withLock {
            outcome = error.map { .failure($0 as? URLError ?? URLError(.unknown)) } ?? .success(())
            condition.broadcast()
        }
    }
}

/// Runs each operation at once, on the thread that adds it.
private final class InlineQueue: OperationQueue, @unchecked Sendable {
    override func addOperation(_ block: @escaping @Sendable () -> Void) { block() }

    override func addOperation(_ operation: Operation) { operation.start() }
}
