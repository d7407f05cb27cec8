import COperatingSystem

/// A system call that failed, and what was being attempted.
package struct SocketError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The positive errno.
    package let code: Int32
    /// What was being attempted: `listen on 127.0.0.1:9000`.
    package let attempt: String

    /// Why, and what to do, where that is not what the system's message for the code says; nil for that
    /// message.
    package let reason: String?

    /// - Parameter code: The positive errno.
    package init(code: Int32, attempt: String, reason: String? = nil) {
        self.code = code
        self.attempt = attempt
        self.reason = reason
    }

    package var description: String { "\(attempt): \(reason ?? errorText(code))" }
}

/// The system's message for a positive errno (strerror_r(3)).
package func errorText(_ code: Int32) -> String {
    unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { text in
        // Null-terminated by the C side within the 128 bytes.
        unsafe text.initialize(repeating: 0)
        guard let start = text.baseAddress else { return "errno \(code)" }
        unsafe pando_error_text(code, start, text.count)
        return unsafe String(cString: start)
    }
}

/// Turns the result of a C function, which is `-errno` on failure, into an error.
@discardableResult
func checked(_ result: Int32, _ attempt: @autoclosure () -> String) throws(SocketError) -> Int32 {
    guard result >= 0 else { throw SocketError(code: -result, attempt: attempt()) }
    return result
}
