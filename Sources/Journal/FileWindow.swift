import PandoBytes

/// A part of one file in memory: the requested range, or a mebibyte if that is more. So a journal of any size
/// is read in bounded memory. The window moves forward. It grows for a large record, and shrinks again after
/// it.
struct FileWindow<Storage: Disk>: ~Copyable {
    private let disk: Storage
    private let file: Storage.File
    private let path: String
    /// The size of the file when the window was made. Bytes that are appended meanwhile are ignored.
    private(set) var fileByteCount: Int

    private var buffer: [UInt8]
    /// The range of the file that is at the start of `buffer`. Invariant: `loaded.count <= buffer.count`.
    private var loaded = 0..<0

    static var usualByteCount: Int { 1 << 20 }

    /// A window in which nothing is loaded.
    init(of file: Storage.File, path: String, byteCount: Int, on disk: Storage) {
        self.disk = disk
        self.path = path
        self.file = file
        fileByteCount = byteCount
        buffer = [UInt8](repeating: 0, count: max(8, min(Self.usualByteCount, byteCount)))
    }

    /// Frees the memory, and returns the open file.
    consuming func finish() -> Storage.File { file }

    /// Truncates the file to `end`, and makes `range` before it durable, by writing it again and syncing.
    /// After a sync that failed in an earlier process, the kernel may hold bytes that it treats as clean and
    /// never wrote. A new sync alone would not write them.
    /// - Throws: ``DiskFailure``.
    mutating func rewriteDurably(_ range: Range<Int>, end: Int) throws(DiskFailure) {
        if end < fileByteCount { try disk.truncate(file, to: end) }
        var start = range.lowerBound
        while start < range.upperBound {
            let piece = start..<min(start + Self.usualByteCount, range.upperBound)
            try load(piece)
            let (disk, file) = (disk, file)
            try disk.write(bytes(piece), to: file, at: piece.lowerBound)
            start = piece.upperBound
        }
        try disk.sync(file)
    }

    /// Loads a range of the file. Bytes before it may be dropped.
    /// - Throws: ``DiskFailure``, also when the file has become shorter.
    mutating func load(_ range: Range<Int>) throws(DiskFailure) {
        if range.lowerBound >= loaded.lowerBound && range.upperBound <= loaded.upperBound { return }
        precondition(range.lowerBound >= 0 && range.upperBound <= fileByteCount, "read beyond the file")

        // Only loaded bytes that include the beginning of the range can be kept.
        let kept =
            loaded.contains(range.lowerBound)
            ? range.lowerBound..<loaded.upperBound : range.lowerBound..<range.lowerBound
        let capacity = max(min(Self.usualByteCount, fileByteCount), range.count)
        if capacity > buffer.count || buffer.count > 4 * capacity {
            var larger = [UInt8](repeating: 0, count: capacity)
            let source = kept.isEmpty ? 0 : kept.lowerBound - loaded.lowerBound
            larger.replaceSubrange(0..<kept.count, with: buffer[source..<source + kept.count])
            buffer = larger
        } else if !kept.isEmpty {
            let source = kept.isEmpty ? 0 : kept.lowerBound - loaded.lowerBound
            unsafe buffer.withUnsafeMutableBytes { bytes in
                // Both ends lie inside the buffer: `kept` is part of `loaded`. The two may overlap.
                guard let base = bytes.baseAddress else { return }
                unsafe base.copyMemory(from: base + source, byteCount: kept.count)
            }
        }

        // The kept bytes are the first ones of `range`, or none. `range` is longer, since it was not loaded.
        let start = range.lowerBound
        loaded = start..<start
        let requested = min(buffer.count, fileByteCount - start)
        let (disk, file) = (self.disk, self.file)
        let count = try unsafe buffer.withUnsafeMutableBufferPointer { bytes throws(DiskFailure) -> Int in
            let rest = unsafe UnsafeMutableBufferPointer(rebasing: bytes[kept.count..<requested])
            return unsafe try disk.read(
                file, at: start + kept.count, into: UnsafeMutableRawBufferPointer(rest))
        }
        loaded = start..<start + kept.count + count
        if loaded.upperBound < range.upperBound {
            throw DiskFailure(
                operation: .read, path: path, errorNumber: 0, errorText: "the file has become shorter")
        }
    }

    /// Drops everything that is loaded, so that the next ``load(_:)`` reads the file again.
    mutating func unload() { loaded = 0..<0 }

    /// Adapts the window to a file that has become shorter: a server that stops truncates the space that it
    /// has not filled, also while another process reads.
    /// - Returns: Whether the file has become shorter.
    /// - Throws: ``DiskFailure``.
    mutating func updateForTruncation() throws(DiskFailure) -> Bool {
        let byteCount = try disk.byteCount(of: file)
        guard byteCount < fileByteCount else { return false }
        fileByteCount = byteCount
        unload()
        return true
    }

    /// Whether there are only zeros from `start` to the end of the file.
    /// - Throws: ``DiskFailure``.
    /// - Complexity: One read up to the first byte that is not zero.
    mutating func isUnwritten(from start: Int) throws(DiskFailure) -> Bool {
        var offset = start
        while offset < fileByteCount {
            let range = offset..<min(offset + Self.usualByteCount, fileByteCount)
            try load(range)
            if bytes(range).lastNonzeroOffset != nil { return false }
            offset = range.upperBound
        }
        return true
    }

    /// The end of the last byte behind `start` that is not zero; `start` where there is none.
    /// - Throws: ``DiskFailure``.
    /// - Complexity: One read to the end of the file.
    mutating func writtenEnd(from start: Int) throws(DiskFailure) -> Int {
        var end = start
        var offset = start
        while offset < fileByteCount {
            let range = offset..<min(offset + Self.usualByteCount, fileByteCount)
            try load(range)
            if let last = bytes(range).lastNonzeroOffset { end = offset + last + 1 }
            offset = range.upperBound
        }
        return end
    }

    /// A loaded range of the file. Traps outside of what is loaded.
    @_lifetime(borrow self)
    func bytes(_ range: Range<Int>) -> RawSpan {
        precondition(range.lowerBound >= loaded.lowerBound && range.upperBound <= loaded.upperBound)
        return buffer.rawSpan.extracting(
            range.lowerBound - loaded.lowerBound..<range.upperBound - loaded.lowerBound)
    }
}

extension RawSpan {
    /// The offset of the last byte that is not zero; nil where there is none.
    fileprivate var lastNonzeroOffset: Int? {
        var end = byteCount
        while end >= 8, littleEndian(at: end - 8, as: UInt64.self) == 0 { end -= 8 }
        while end > 0, littleEndian(at: end - 1, as: UInt8.self) == 0 { end -= 1 }
        return end > 0 ? end - 1 : nil
    }
}
