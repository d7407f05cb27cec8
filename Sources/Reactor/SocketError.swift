import CSystem

/// A system call that failed, and what it was for.
package struct SocketError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The positive errno.
    package let code: Int32
    /// What was being attempted: `listen on 127.0.0.1:9000`.
    package let attempt: String

    package init(code: Int32, attempt: String) {
        self.code = code
        self.attempt = attempt
    }

    package var description: String { "\(attempt): \(errorText(code))" }
}

/// The system's words for an errno.
package func errorText(_ code: Int32) -> String {
    unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { text in
        // Null-terminated by the C side within the 128 bytes.
        unsafe text.initialize(repeating: 0)
        guard let start = text.baseAddress else { return "errno \(code)" }
        unsafe pando_error_text(code, start, text.count)
        return unsafe String(cString: start)
    }
}

/// Turns a `-errno` answer into an error.
@discardableResult
func checked(_ result: Int32, _ attempt: @autoclosure () -> String) throws(SocketError) -> Int32 {
    guard result >= 0 else { throw SocketError(code: -result, attempt: attempt()) }
    return result
}
