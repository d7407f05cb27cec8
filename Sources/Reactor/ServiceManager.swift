import COperatingSystem

/// The service manager that started the process, and is notified of how far it is (sd_notify(3),
/// `Type=notify`): one datagram for each state to the Unix socket that `NOTIFY_SOCKET` names. Without such a
/// variable nothing is sent.
package struct ServiceManager: Sendable {
    /// A path, or an abstract name behind `@`.
    private let socketName: String?

    /// - Parameter environment: The process's variables.
    package init(_ environment: [String: String]) {
        socketName = environment["NOTIFY_SOCKET"].flatMap { $0.isEmpty ? nil : $0 }
    }

    package enum State: Equatable, Sendable {
        /// Clients are served, for the first time or after a reload.
        case ready
        /// Files are being read again.
        case reloading
        /// Sessions are being ended.
        case stopping

        /// - Parameter microseconds: Of the monotonic clock; a manager needs them to match a reload with its
        ///   signal.
        func message(at microseconds: UInt64) -> String {
            switch self {
            case .ready: "READY=1\nSTATUS=serving clients\n"
            case .reloading: "RELOADING=1\nMONOTONIC_USEC=\(microseconds)\nSTATUS=reading files again\n"
            case .stopping: "STOPPING=1\nSTATUS=ending sessions\n"
            }
        }
    }

    /// Sends a state. Waits while the manager's socket is full.
    /// - Throws: What sendto(2) reports; EINVAL for a name that is neither a path nor abstract, or too long.
    package func notify(_ state: State) throws(SocketError) {
        guard let socketName else { return }
        let message = Array(state.message(at: pando_monotonic_ns() / 1000).utf8)
        guard !socketName.utf8.contains(0) else {
            throw SocketError(code: PANDO_EINVAL, attempt: "notify the service manager")
        }
        try checked(
            unsafe message.withUnsafeBytes { bytes in
                unsafe pando_send_datagram(socketName, bytes.baseAddress, bytes.count)
            }, "notify the service manager at \(socketName)")
    }
}
