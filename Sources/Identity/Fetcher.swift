import Foundation
import FoundationNetworking
import Synchronization

/// The response of an issuer.
struct FetchedDocument: Sendable {
    var body: [UInt8]
    /// `max-age` of `Cache-Control`, less `Age`; nil where there is none.
    var maxAge: Duration?
}

/// Why a document could not be fetched, for the log.
struct FetchError: Error, CustomStringConvertible {
    let description: String
}

/// Fetches small documents, with limits on size and time, and without following redirects.
///
/// The documents decide whose signatures are valid, so a redirect (perhaps to plain HTTP) is an error.
enum Fetcher {
    /// JWK sets are a few KiB.
    static let byteLimit = 1 << 20
    /// Seconds for the whole request, the connection included.
    static let timeLimit: TimeInterval = 10

    static func fetch(_ address: FetchURL) async throws(FetchError) -> FetchedDocument {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.timeoutIntervalForRequest = timeLimit
        configuration.httpCookieAcceptPolicy = .never
        configuration.httpShouldSetCookies = false
        configuration.urlCache = nil
        var request = URLRequest(url: address.url, cachePolicy: .reloadIgnoringLocalCacheData)
        request.setValue("application/json", forHTTPHeaderField: "Accept")
        let result: Result<FetchedDocument, FetchError> = await withCheckedContinuation { continuation in
            let exchange = FetchExchange { continuation.resume(returning: $0) }
            let session = URLSession(configuration: configuration, delegate: exchange, delegateQueue: nil)
            let task = session.dataTask(with: request)
            task.resume()
            // Also bounds a response that comes slowly, which the session's own limit would allow.
            DispatchQueue.global().asyncAfter(deadline: .now() + timeLimit) { task.cancel() }
            session.finishTasksAndInvalidate()
        }
        return try result.get()
    }
}

/// One request and its response.
///
/// `@unchecked Sendable`: all mutable state is in a mutex.
private final class FetchExchange: NSObject, URLSessionDataDelegate, @unchecked Sendable {
    private struct State {
        var document = FetchedDocument(body: [])
        var problem: String?
        var finish: ((Result<FetchedDocument, FetchError>) -> Void)?
    }

    private let state: Mutex<State>

    init(_ finish: @escaping @Sendable (Result<FetchedDocument, FetchError>) -> Void) {
        state = Mutex(State(finish: finish))
    }

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
        let response = response as? HTTPURLResponse
        let status = response?.statusCode ?? 0
        state.withLock { state in
            if status != 200 { state.problem = "the response has status \(status)" }
            state.document.maxAge = response.flatMap(Self.maxAge)
        }
        completionHandler(status == 200 ? .allow : .cancel)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        let isTooLong = state.withLock { state in
            if state.document.body.count + data.count > Fetcher.byteLimit {
                state.problem = "the response has more than \(Fetcher.byteLimit) bytes"
                return true
            }
            state.document.body += data
            return false
        }
        if isTooLong { dataTask.cancel() }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        let (finish, result) = state.withLock { state in
            let finish = state.finish
            state.finish = nil
            let status = (task.response as? HTTPURLResponse)?.statusCode
            let problem =
                state.problem ?? error?.localizedDescription
                ?? (status == 200 ? nil : "the response has status \(status ?? 0)")
            let result: Result<FetchedDocument, FetchError> =
                problem.map { .failure(FetchError(description: $0)) } ?? .success(state.document)
            return (UncheckedFinish(call: finish), result)
        }
        finish.call?(result)
    }

    /// Carries the closure out of the mutex. It is called once.
    private struct UncheckedFinish: @unchecked Sendable {
        let call: ((Result<FetchedDocument, FetchError>) -> Void)?
    }

    private static func maxAge(_ response: HTTPURLResponse) -> Duration? {
        let directives = (response.value(forHTTPHeaderField: "Cache-Control") ?? "").lowercased().split(
            separator: ",")
        for directive in directives {
            let parts = directive.split(separator: "=").map { $0.trimmingCharacters(in: .whitespaces) }
            guard parts.count == 2, parts[0] == "max-age", let seconds = Int64(parts[1]), seconds >= 0 else {
                continue
            }
            let age = response.value(forHTTPHeaderField: "Age").flatMap { Int64($0) } ?? 0
            return .seconds(min(max(0, seconds - max(0, min(age, seconds))), 1 << 31))
        }
        return nil
    }
}
