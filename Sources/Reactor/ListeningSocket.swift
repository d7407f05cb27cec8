import COperatingSystem

/// A socket that listens and that no acceptor owns yet. Its deinit closes it.
package final class ListeningSocket {
    private var descriptor: Int32
    /// Where it listens, with the port that the system chose if 0 was asked for.
    package let address: SocketAddress
    /// Of a Unix socket that this process has made: its acceptor removes the name when it closes.
    package let path: String?
    /// Which file ``path`` was then: a name that another server has made since is not removed.
    let made: pando_file_identity?

    /// Connections that the kernel completes and queues until they are accepted (listen(2)); it reduces this
    /// to net.core.somaxconn.
    package static let backlog: Int32 = 4096

    /// Below it only some processes may listen (ip(7), ip_unprivileged_port_start).
    private static let firstUnprivilegedPort: UInt16 = 1024
    private static let privilegeReason =
        "permission denied: a port below 1024 needs a socket that systemd opens (pando.socket), or the capability CAP_NET_BIND_SERVICE"

    private init(
        _ descriptor: Int32, _ address: SocketAddress, path: String?, made: pando_file_identity? = nil
    ) {
        self.descriptor = descriptor
        self.address = address
        self.path = path
        self.made = made
    }

    deinit {
        if descriptor >= 0 { _ = pando_close(descriptor) }
    }

    /// Listens on an address. `::` serves IPv4 too, unless ``SocketOptions/isIPv6Only`` is set.
    /// - Throws: What socket(2), bind(2) or listen(2) report: EADDRINUSE, EACCES, EADDRNOTAVAIL, EMFILE …
    package static func open(
        at address: SocketAddress, backlog: Int32 = backlog, options: SocketOptions = SocketOptions()
    ) throws(SocketError) -> ListeningSocket {
        var wanted = address.raw
        var options = options.raw
        let descriptor = unsafe pando_listen(&wanted, backlog, &options)
        guard descriptor >= 0 else {
            let isPrivileged = descriptor == -PANDO_EACCES && address.port < firstUnprivilegedPort
            throw SocketError(
                code: -descriptor, attempt: "listen on \(address)",
                reason: isPrivileged ? privilegeReason : nil)
        }
        return ListeningSocket(descriptor, localAddress(of: descriptor) ?? address, path: nil)
    }

    /// Listens on a Unix socket. One that a process has left behind is replaced; access is that of the umask.
    /// - Throws: EADDRINUSE where another process listens there, or something else has the name; EINVAL for a
    ///   path that is too long.
    package static func open(unixPath path: String, backlog: Int32 = backlog) throws(SocketError)
        -> ListeningSocket
    {
        guard !path.utf8.contains(0) else {
            throw SocketError(code: PANDO_EINVAL, attempt: "listen on \(path)")
        }
        var made = pando_file_identity()
        let descriptor = try checked(
            unsafe pando_listen_unix(path, backlog, &made), "listen on unix:\(path)")
        return ListeningSocket(descriptor, .unix, path: path, made: made)
    }

    /// Takes a socket that listens already, and that the service manager has passed (sd_listen_fds(3)).
    /// - Throws: EINVAL for a descriptor that is no listening stream socket.
    package static func adopt(_ descriptor: Int32, options: SocketOptions = SocketOptions())
        throws(SocketError)
        -> ListeningSocket
    {
        var options = options.raw
        try checked(
            unsafe pando_adopt_listener(descriptor, &options),
            "use descriptor \(descriptor), which the service manager has passed, as a listening socket")
        return ListeningSocket(descriptor, localAddress(of: descriptor) ?? .unix, path: nil)
    }

    private static func localAddress(of descriptor: Int32) -> SocketAddress? {
        var chosen = pando_address()
        return unsafe pando_local_address(descriptor, &chosen) > 0 ? SocketAddress(raw: chosen) : nil
    }

    /// Moves the descriptor out, once. The caller closes it.
    func takeDescriptor() -> Int32 {
        precondition(descriptor >= 0, "the descriptor was taken before")
        defer { descriptor = -1 }
        return descriptor
    }

    /// `127.0.0.1:9000`, `unix:/run/pando.sock`.
    package var description: String { path.map { "unix:\($0)" } ?? address.description }
}

/// The sockets that a service manager passes (sd_listen_fds(3)).
package enum PassedSockets {
    /// The first descriptor (SD_LISTEN_FDS_START).
    package static let firstDescriptor: Int32 = 3
    /// More than any unit file has.
    static let countLimit: Int32 = 64

    /// The descriptors that the environment announces to this process.
    /// - Parameter environment: The process's variables.
    /// - Returns: nil where `LISTEN_FDS` is no number of descriptors; empty where none are for this process.
    package static func descriptors(_ environment: [String: String], processID: Int32) -> Range<Int32>? {
        let none = firstDescriptor..<firstDescriptor
        guard let text = environment["LISTEN_FDS"], let listener = environment["LISTEN_PID"],
            listener == "\(processID)"
        else { return none }
        guard let count = Int32(text), (0...countLimit).contains(count) else { return nil }
        return firstDescriptor..<firstDescriptor + count
    }
}
