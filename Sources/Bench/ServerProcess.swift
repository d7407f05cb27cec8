import Glibc
import PandoReactor
import PandoTime
import PandoTraffic

/// Why a server that was started did not work.
struct ServerProcessError: Error, CustomStringConvertible {
    let description: String
}

/// A server process, from its first line of output to its end. It is stopped by its process id; releasing the
/// last reference to a running one kills it.
final class ServerProcess {
    private static let startMilliseconds = 20_000
    private static let stopMilliseconds = 20_000

    /// The process that was started: the server, or strace with the server as its child.
    private let child: pid_t
    /// The server.
    let process: pid_t
    private(set) var port: UInt16 = 0
    private var hasEnded = false

    /// Starts `command`, which must print `listening on http://HOST:PORT`, and waits for that line.
    /// - Parameter isTraced: Whether `command` runs the server as a child of its own.
    init(_ command: [String], isTraced: Bool = false) throws(ServerProcessError) {
        let (child, output) = try spawn(command)
        self.child = child
        defer { close(output) }
        guard let line = readLine(from: output, withinMilliseconds: Self.startMilliseconds),
            let colon = line.lastIndex(of: ":"), let port = UInt16(line[line.index(after: colon)...])
        else {
            process = child
            throw ServerProcessError(
                description: "\(command.joined(separator: " ")): did not print where it listens")
        }
        process = isTraced ? onlyChild(of: child) ?? child : child
        self.port = port
    }

    deinit {
        guard !hasEnded else { return }
        kill(process, SIGKILL)
        kill(child, SIGKILL)
        _ = hasExited(withinMilliseconds: Self.stopMilliseconds)
    }

    /// Sends SIGTERM and waits for the end.
    /// - Throws: When the process does not end in time (it is killed then), or not with status 0.
    func stop() throws(ServerProcessError) {
        kill(process, SIGTERM)
        guard let status = hasExited(withinMilliseconds: Self.stopMilliseconds) else {
            throw ServerProcessError(description: "process \(process) did not stop on SIGTERM")
        }
        guard status == 0 else {
            throw ServerProcessError(description: "process \(process) ended with status \(status)")
        }
    }

    /// - Returns: Its status as `waitpid` gives it, nil if it runs on.
    private func hasExited(withinMilliseconds limit: Int) -> Int32? {
        for _ in 0...limit / 2 {
            var status: Int32 = 0
            // Writes `status`.
            if unsafe waitpid(child, &status, WNOHANG) == child {
                hasEnded = true
                return status
            }
            usleep(2000)
        }
        return nil
    }
}

/// Starts a program, found in PATH unless it has a slash, with a pipe for its standard output.
/// - Returns: Its id, and the pipe's end to read from, which the caller closes.
private func spawn(_ command: [String]) throws(ServerProcessError) -> (pid_t, Int32) {
    var ends: [Int32] = [-1, -1]
    // Two descriptors fit the array.
    guard unsafe pipe(&ends) == 0 else { throw ServerProcessError(description: "no pipe: errno \(errno)") }
    _ = fcntl(ends[0], F_SETFD, FD_CLOEXEC)
    _ = fcntl(ends[1], F_SETFD, FD_CLOEXEC)
    defer { close(ends[1]) }

    var actions = unsafe posix_spawn_file_actions_t()
    var attributes = posix_spawnattr_t()
    var noSignals = sigset_t()
    var child: pid_t = 0
    // All of these write into the structures; the two that own memory are destroyed below.
    unsafe posix_spawn_file_actions_init(&actions)
    unsafe posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
    unsafe posix_spawnattr_init(&attributes)
    // This thread has blocked signals; the child must not inherit that.
    unsafe sigemptyset(&noSignals)
    unsafe posix_spawnattr_setsigmask(&attributes, &noSignals)
    unsafe posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
    // Null-terminated, as are the strings; freed below.
    var arguments: [UnsafeMutablePointer<CChar>?] = unsafe command.map { unsafe strdup($0) } + [nil]
    let result = unsafe posix_spawnp(&child, command[0], &actions, &attributes, &arguments, environ)
    unsafe arguments.forEach { unsafe free($0) }
    unsafe posix_spawn_file_actions_destroy(&actions)
    unsafe posix_spawnattr_destroy(&attributes)
    guard result == 0 else {
        close(ends[0])
        throw ServerProcessError(description: "\(command[0]): \(errorText(result))")
    }
    return (child, ends[0])
}

/// The first line of a descriptor, without its end; nil if it does not come in time.
private func readLine(from descriptor: Int32, withinMilliseconds limit: Int) -> String? {
    let deadline = MonotonicTime.now + .milliseconds(limit)
    var line: [UInt8] = []
    while line.count < 4096 {
        let left = (deadline - .now) / .milliseconds(1)
        var interest = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        // One structure and one byte, valid during the calls.
        guard left >= 1, unsafe poll(&interest, 1, Int32(left)) > 0 else { return nil }
        var byte: UInt8 = 0
        guard unsafe read(descriptor, &byte, 1) == 1 else { return nil }
        if byte == UInt8(ascii: "\n") { return String(decoding: line, as: UTF8.self) }
        line.append(byte)
    }
    return nil
}

/// The first child of a process, from `/proc`.
private func onlyChild(of process: pid_t) -> pid_t? {
    let children = readWholeFile("/proc/\(process)/task/\(process)/children") ?? ""
    return children.split(separator: " ").first.flatMap { pid_t($0) }
}
