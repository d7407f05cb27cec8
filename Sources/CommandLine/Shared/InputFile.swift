import Foundation
import PandoBytes
import PandoCompression

/// A file, or standard input, that is read once, in pieces. A gzip file is inflated. Memory holds one piece,
/// and the bytes that were not dropped yet.
struct InputFile: ~Copyable {
    struct Failure: Error {
        var text: String
    }

    let name: String
    /// The size of the file on the disk; nil for a pipe.
    let byteCount: Int?
    /// How many of them were read.
    private(set) var readByteCount = 0

    private let handle: FileHandle
    /// The current bytes are the first `filledCount`.
    private var window = [UInt8](repeating: 0, count: Self.pieceByteCount)
    private var filledCount = 0
    private var gzip: GzipBody?

    /// Large enough that reading is few system calls, small enough to stay in a processor's cache.
    private static let pieceByteCount = 512 << 10
    /// A piece of gzip becomes at most about a thousand times as much (RFC 1951).
    private static let gzipPieceByteCount = 16 << 10

    private init(_ name: String, _ handle: FileHandle, byteCount: Int?) {
        self.name = name
        self.handle = handle
        self.byteCount = byteCount
    }

    /// - Parameter name: `-` for standard input.
    static func open(_ name: String) throws(Failure) -> InputFile {
        var file: InputFile
        if name == "-" {
            file = InputFile("standard input", .standardInput, byteCount: nil)
        } else {
            guard let handle = FileHandle(forReadingAtPath: name) else {
                throw Failure(text: "\(name): can't be read: \(Self.text(of: errno))")
            }
            let attributes = (try? FileManager.default.attributesOfItem(atPath: name)) ?? [:]
            let isFile = attributes[.type] as? FileAttributeType == .typeRegular
            file = InputFile(name, handle, byteCount: isFile ? attributes[.size] as? Int : nil)
        }
        try file.begin()
        return file
    }

    private mutating func begin() throws(Failure) {
        // Two bytes of magic (RFC 1952 §2.3.1); no JSON begins so.
        while filledCount < 2 { if try read(atMost: Self.pieceByteCount) == 0 { return } }
        guard window[0] == 0x1F, window[1] == 0x8B else { return }
        do throws(CompressionError) {
            // No limit of ours: the tree's own limits bound what comes of it.
            gzip = try GzipBody(byteLimit: .max / 2)
        } catch {
            throw Failure(text: "\(name): no memory to inflate it")
        }
        let packed = Array(window[..<filledCount])
        filledCount = 0
        for start in stride(from: 0, to: packed.count, by: Self.gzipPieceByteCount) {
            try inflate(Array(packed[start..<min(start + Self.gzipPieceByteCount, packed.count)]))
        }
    }

    /// The bytes that were read and not dropped.
    var bytes: RawSpan {
        @_lifetime(borrow self)
        get { window.rawSpan.extracting(0..<filledCount) }
    }

    /// Removes the first `count` of ``bytes``.
    mutating func drop(_ count: Int) {
        guard count > 0 else { return }
        let left = filledCount - count
        precondition(left >= 0)
        if left > 0 {
            unsafe window.withUnsafeMutableBytes { bytes in
                // Both ends lie before `filledCount`; they may overlap.
                guard let base = bytes.baseAddress else { return }
                unsafe base.copyMemory(from: base + count, byteCount: left)
            }
        }
        filledCount = left
        // It grew for a long string.
        if window.count > 2 * Self.pieceByteCount, left < Self.pieceByteCount / 2 {
            window.removeSubrange(Self.pieceByteCount...)
        }
    }

    /// Reads more; false at the end.
    mutating func fill() throws(Failure) -> Bool {
        if gzip == nil { return try read(atMost: .max) > 0 }
        var piece = [UInt8](repeating: 0, count: Self.gzipPieceByteCount)
        let count = try read(into: &piece, from: 0)
        guard count > 0 else {
            do throws(GzipBody.Problem) { try gzip?.finish() } catch {
                throw Failure(text: "\(name): the gzip data ends in the middle")
            }
            return false
        }
        piece.removeSubrange(count...)
        try inflate(piece)
        return true
    }

    private mutating func inflate(_ piece: [UInt8]) throws(Failure) {
        var inflated: [UInt8] = []
        do throws(GzipBody.Problem) { try gzip?.inflate(piece.rawSpan, into: &inflated) } catch {
            throw Failure(text: "\(name): damaged gzip data")
        }
        if window.count < filledCount + inflated.count {
            window += [UInt8](repeating: 0, count: filledCount + inflated.count - window.count)
        }
        window.replaceSubrange(filledCount..<filledCount + inflated.count, with: inflated)
        filledCount += inflated.count
    }

    /// Makes the window larger when it is more than half full, and reads what fits.
    private mutating func read(atMost byteLimit: Int) throws(Failure) -> Int {
        // Twice as much each time: a long token is then looked at again only a few times.
        if window.count - filledCount < window.count / 2 {
            window += [UInt8](repeating: 0, count: window.count)
        }
        var bytes = exchange(&window, with: [])
        defer { window = bytes }
        let count = try read(into: &bytes, from: filledCount)
        filledCount += count
        return count
    }

    private mutating func read(into bytes: inout [UInt8], from start: Int) throws(Failure) -> Int {
        while true {
            let descriptor = handle.fileDescriptor
            let count = unsafe bytes.withUnsafeMutableBytes { buffer in
                // In bounds: the rest of the buffer, and no more than its count.
                let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[start...])
                return unsafe Glibc.read(descriptor, rest.baseAddress, rest.count)
            }
            if count >= 0 {
                readByteCount += count
                return count
            }
            if errno != EINTR { throw Failure(text: "\(name): can't be read: \(Self.text(of: errno))") }
        }
    }

    private static func text(of errorNumber: Int32) -> String {
        // A constant of the C library, ended by NUL.
        unsafe String(cString: strerror(errorNumber))
    }
}

extension InputFile {
    /// The content of a whole file.
    static func content(of name: String) throws(Failure) -> [UInt8] {
        var file = try InputFile.open(name)
        while try file.fill() {}
        var bytes: [UInt8] = []
        bytes.append(file.bytes)
        return bytes
    }
}
