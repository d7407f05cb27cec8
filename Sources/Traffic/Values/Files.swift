import Glibc

/// The text of a file; nil when it cannot be read.
package func readWholeFile(_ path: String) -> String? {
    // The path is valid during the call.
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var content: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 64 << 10)
    while true {
        // Writes into the array, at most its count.
        let count = unsafe read(descriptor, &piece, piece.count)
        guard count >= 0 else { return nil }
        if count == 0 { return String(decoding: content, as: UTF8.self) }
        content.append(contentsOf: piece.prefix(count))
    }
}

/// Creates or replaces a file.
/// - Returns: Whether all of it was written.
package func writeWholeFile(_ path: String, _ text: String) -> Bool {
    // The path is valid during the call.
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    return writeAll(text, to: descriptor)
}

/// - Returns: Whether all of it was written.
@discardableResult
package func writeAll(_ text: String, to descriptor: Int32) -> Bool {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
        // Reads from the slice, at most its count.
        let count = unsafe rest.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { return false }
        rest = rest.dropFirst(count)
    }
    return true
}
