import COperatingSystem

/// Runs a program to its end. The calling thread waits for it, and the program has the thread's niceness.
package enum ChildProcess {
    /// How a program ended.
    package enum Outcome: Equatable, Sendable {
        /// - Parameters:
        ///   - code: The exit code; 128 + the number of the signal that ended it.
        ///   - output: The beginning of what it wrote to standard output and standard error.
        case ended(code: Int32, output: String)
        /// It was killed.
        case cancelled
    }

    /// Milliseconds between two looks at whether the program is still wanted.
    private static let step: Int32 = 200

    /// - Parameters:
    ///   - path: The program.
    ///   - arguments: Those behind the name of the program; none has a NUL.
    ///   - outputLimit: Bytes of output that are kept; the rest is read and dropped.
    ///   - isCancelled: Asked several times a second; true kills the program.
    /// - Throws: ``SocketError`` where it cannot be started.
    package static func run(
        _ path: String, _ arguments: [String], outputLimit: Int = 4096, isCancelled: () -> Bool
    ) throws(SocketError) -> Outcome {
        var list: [UInt8] = []
        for argument in [path] + arguments { list += Array(argument.utf8) + [0] }
        var process: Int64 = 0
        var output: Int32 = -1
        let started = unsafe list.withUnsafeBytes { bytes in
            // The function reads `count` bytes and no more; each text in them ends with NUL.
            unsafe pando_process_start(
                path, bytes.bindMemory(to: CChar.self).baseAddress, bytes.count, &process, &output)
        }
        try checked(started, "start \(path)")
        var kept: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            if isCancelled() {
                _ = pando_process_end(process, output, 1)
                return .cancelled
            }
            let count = unsafe buffer.withUnsafeMutableBytes { bytes in
                // The function fills no more than `count` bytes.
                unsafe pando_process_read(output, bytes.baseAddress, bytes.count, step)
            }
            if count < 0, pando_process_is_again(Int32(truncatingIfNeeded: 0 - count)) != 0 { continue }
            guard count > 0 else { break }
            kept += buffer.prefix(Int(count)).prefix(max(0, outputLimit - kept.count))
        }
        let code = pando_process_end(process, output, 0)
        return .ended(code: code, output: String(decoding: kept, as: UTF8.self))
    }
}
