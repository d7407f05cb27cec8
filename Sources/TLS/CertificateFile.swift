import CTLS

/// What a file looked like at one moment: a file that was replaced or changed looks different.
struct FileStamp: Equatable {
    private let device: UInt64
    private let inode: UInt64
    private let byteCount: UInt64
    private let modifiedNanoseconds: Int64
    private let changedNanoseconds: Int64
    /// Others than the owner and the group may read the file.
    let isReadableByAll: Bool

    /// nil where there is no such file, or it may not be looked at.
    init?(_ path: String) {
        var stamp = pando_file_stamp()
        guard unsafe pando_tls_file_stamp(path, &stamp) == 0 else { return nil }
        device = stamp.device
        inode = stamp.inode
        byteCount = stamp.byte_count
        modifiedNanoseconds = stamp.modified_ns
        changedNanoseconds = stamp.changed_ns
        isReadableByAll = stamp.mode & Self.readableByOthers != 0
    }

    /// S_IROTH.
    private static let readableByOthers: UInt32 = 0o004
}

/// Files of certificates and keys.
package enum CertificateFile {
    /// Most bytes of a file: a chain has about ten thousand, a list of issuers some hundred thousand.
    static let byteLimit = 4 << 20

    /// All bytes of a regular file.
    /// - Throws: Why it can't be read: it is missing, too large (4 MiB), no file.
    package static func read(_ path: String) throws(InvalidCertificate) -> [UInt8] {
        var stamp = pando_file_stamp()
        // Where it can't be looked at, the read says why.
        let isFound = unsafe pando_tls_file_stamp(path, &stamp) == 0
        var capacity = isFound ? Int(min(stamp.byte_count, UInt64(byteLimit))) : 0
        while true {
            var bytes = [UInt8](repeating: 0, count: capacity)
            // In bounds: it writes at most `capacity` bytes.
            let count = unsafe pando_tls_file_read(path, &bytes, capacity)
            if count >= 0 {
                bytes.removeLast(capacity - Int(count))
                return bytes
            }
            guard count == -Int64(PANDO_TLS_EFBIG), capacity < byteLimit else {
                throw InvalidCertificate(
                    reason: "can't be read: \(reason(Int32(truncatingIfNeeded: -count)))")
            }
            // It has grown since it was looked at.
            capacity = byteLimit
        }
    }

    /// The names in a directory, sorted; nil where it can't be read.
    static func names(in directory: String) -> [String]? {
        var names: [String] = []
        let result = unsafe withUnsafeMutablePointer(to: &names) { list in
            unsafe pando_tls_directory(
                directory,
                { list, name in
                    guard let name = unsafe name, let list = unsafe list else { return }
                    unsafe list.assumingMemoryBound(to: [String].self).pointee.append(String(cString: name))
                }, list)
        }
        return result == 0 ? names.sorted() : nil
    }

    private static func reason(_ code: Int32) -> String {
        var text = [CChar](repeating: 0, count: 128)
        unsafe pando_tls_errno_text(code, &text, text.count)
        return PandoTLS.text(text)
    }
}
