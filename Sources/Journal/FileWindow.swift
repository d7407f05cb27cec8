import PandoBytes

/// A view of one file that never holds more than what is asked for at once, or a mebibyte: how a log of any
/// size is read in bounded memory. Moves forward; a large record makes it grow, and it shrinks again behind
/// it.
struct FileWindow<Storage: Disk>: ~Copyable {
    private let disk: Storage
    private let file: Storage.File
    private let path: String
    /// As it was when the window was opened: what somebody appends meanwhile is not there.
    private(set) var fileByteCount: Int

    private var buffer: [UInt8]
    /// Which bytes of the file lie at the start of `buffer`. Invariant: `loaded.count <= buffer.count`.
    private var loaded = 0..<0

    static var usualByteCount: Int { 1 << 20 }

    /// A window on nothing yet.
    init(of file: Storage.File, path: String, byteCount: Int, on disk: Storage) {
        self.disk = disk
        self.path = path
        self.file = file
        fileByteCount = byteCount
        buffer = [UInt8](repeating: 0, count: max(8, min(Self.usualByteCount, byteCount)))
    }

    /// Gives up the memory, keeps the file.
    consuming func finish() -> Storage.File { file }

    /// Makes the file end at `end`, and `range` before it durable even if an earlier process saw a sync of it
    /// fail: the kernel then holds bytes it calls clean and never wrote, and a new sync alone would do
    /// nothing for them.
    mutating func settle(_ range: Range<Int>, end: Int) throws(DiskFailure) {
        if end < fileByteCount { try disk.truncate(file, to: end) }
        var start = range.lowerBound
        while start < range.upperBound {
            let piece = start..<min(start + Self.usualByteCount, range.upperBound)
            try load(piece)
            let (disk, file) = (disk, file)
            try GatheredBytes.with(bytes(piece)) { bytes throws(DiskFailure) in
                try disk.write(bytes, to: file, at: piece.lowerBound)
            }
            start = piece.upperBound
        }
        try disk.sync(file)
    }

    /// Makes `range` of the file readable and forgets what lies before it.
    mutating func load(_ range: Range<Int>) throws(DiskFailure) {
        if range.lowerBound >= loaded.lowerBound && range.upperBound <= loaded.upperBound { return }
        precondition(range.lowerBound >= 0 && range.upperBound <= fileByteCount, "read beyond the file")

        // Only what joins the beginning of the range is of use.
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

        // Nothing kept, or exactly the first bytes asked for: `range` was not loaded whole, so it ends later.
        let start = range.lowerBound
        loaded = start..<start
        let wanted = min(buffer.count, fileByteCount - start)
        let (disk, file) = (self.disk, self.file)
        let count = try unsafe buffer.withUnsafeMutableBufferPointer { bytes throws(DiskFailure) -> Int in
            let rest = unsafe UnsafeMutableBufferPointer(rebasing: bytes[kept.count..<wanted])
            return unsafe try disk.read(
                file, at: start + kept.count, into: UnsafeMutableRawBufferPointer(rest))
        }
        loaded = start..<start + kept.count + count
        if loaded.upperBound < range.upperBound {
            throw DiskFailure(
                operation: .read, path: path, errorNumber: 0, errorText: "the file has become shorter")
        }
    }

    /// The next ``load(_:)`` reads the file again: somebody may have written there meanwhile.
    mutating func forget() { loaded = 0..<0 }

    /// Whether the file has become shorter since the window was opened. Then the window is on what is left: a
    /// server that stops cuts off the room that it has not filled, whoever reads.
    mutating func shrinks() throws(DiskFailure) -> Bool {
        let byteCount = try disk.byteCount(of: file)
        guard byteCount < fileByteCount else { return false }
        fileByteCount = byteCount
        forget()
        return true
    }

    /// Whether there are only zeros from `start` to the end of the file.
    /// - Complexity: A read up to the first byte that is none.
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

    /// Where the last byte behind `start` that is not zero ends; `start` where there is none.
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
    /// Where the last byte that is not zero lies; nil where all are.
    fileprivate var lastNonzeroOffset: Int? {
        var end = byteCount
        while end >= 8, littleEndian(at: end - 8, as: UInt64.self) == 0 { end -= 8 }
        while end > 0, littleEndian(at: end - 1, as: UInt8.self) == 0 { end -= 1 }
        return end > 0 ? end - 1 : nil
    }
}
