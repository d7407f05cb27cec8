import PandoBytes

//  --boundary\r\n                                                          RFC 2046 §5.1.1, RFC 7578 §4
//  Content-Disposition: form-data; name="f"; filename="data.json"\r\n      up to 4 KiB of such lines
//  \r\n
//  {"a":1}\r\n
//  --boundary--\r\n                                                        or \r\n, and one more part

/// The form in which the Emulator UI uploads a file (rest §10), as its `Content-Type` announces it.
struct UploadForm: Sendable {
    /// Parts that are looked at for one with a file.
    static let partLimit = 16
    /// Bytes of the lines before a part's data.
    static let headByteLimit = 4096

    /// What stands before each part: two hyphens and the boundary.
    private let delimiter: [UInt8]

    /// Nil for any other type, and without a valid boundary.
    init?(contentType: Text) {
        guard let contentType = contentType.asciiString else { return nil }
        let fields = contentType.split(separator: ";").map { $0.drop { $0 == " " } }
        guard let type = fields.first, type.lowercased().split(separator: " ") == ["multipart/form-data"],
            var boundary = fields.dropFirst().first(where: { $0.lowercased().hasPrefix("boundary=") })
        else { return nil }
        boundary = boundary.dropFirst("boundary=".count)
        while boundary.last == " " { boundary.removeLast() }
        if boundary.count > 2, boundary.first == "\"", boundary.last == "\"" {
            boundary = boundary.dropFirst().dropLast()
        }
        guard 1...70 ~= boundary.utf8.count, boundary.utf8.allSatisfy({ 0x20...0x7E ~= $0 && $0 != 0x22 })
        else { return nil }
        delimiter = Array("--".utf8) + Array(boundary.utf8)
    }

    /// The place of the first file's data in a body.
    /// - Throws: ``RESTError/malformedUpload`` where the body is no such form, or has no file.
    /// - Complexity: O(bytes); nothing is copied.
    func file(in bytes: RawSpan) throws(RESTError) -> Range<Int> {
        let range = withCursor(over: bytes) { cursor in file(in: &cursor) }
        guard let range else { throw .malformedUpload }
        return range
    }

    private func file(in cursor: inout ByteCursor) -> Range<Int>? {
        if isDelimiter(at: 0, in: cursor) {
            cursor.advance(delimiter.count)
        } else {
            guard let end = endOfPart(from: 0, in: cursor) else { return nil }
            cursor.offset = end + 2 + delimiter.count
        }
        for _ in 0..<Self.partLimit {
            // Transport padding (RFC 2046 §5.1.1).
            while !cursor.isAtEnd, cursor.current == 0x20 || cursor.current == 0x09 { cursor.advance() }
            guard cursor.consume("\r\n"), let hasFile = readHead(&cursor),
                let end = endOfPart(from: cursor.offset, in: cursor)
            else { return nil }
            if hasFile { return cursor.offset..<end }
            cursor.offset = end + 2 + delimiter.count
        }
        return nil
    }

    /// Reads the lines before a part's data, the empty one included.
    /// - Returns: Whether one of them names a file; nil where they do not end.
    private func readHead(_ cursor: inout ByteCursor) -> Bool? {
        let start = cursor.offset
        var hasFile = false
        while !cursor.consume("\r\n") {
            let lineStart = cursor.offset
            while !cursor.isAtEnd, cursor.current != 0x0D { cursor.advance() }
            let line = lineStart..<cursor.offset
            guard line.upperBound - start <= Self.headByteLimit, cursor.consume("\r\n") else { return nil }
            // As UTF-8, since names of files are; what is none is replaced, and has no meaning here.
            let text = String(decoding: cursor.array(line), as: UTF8.self).lowercased()
            guard text.hasPrefix("content-disposition:") else { continue }
            let fields = text.split(separator: ";").dropFirst().map { $0.drop { $0 == " " } }
            if fields.contains(where: { $0.hasPrefix("filename=") || $0.hasPrefix("filename*=") }) {
                hasFile = true
            }
        }
        return hasFile
    }

    /// The end of the data before the next delimiter, which begins a line; nil where there is none.
    private func endOfPart(from offset: Int, in cursor: ByteCursor) -> Int? {
        var index = offset
        while index < cursor.count {
            if cursor[index] == 0x0D, isDelimiter(at: index + 2, in: cursor), cursor[index + 1] == 0x0A {
                return index
            }
            index += 1
        }
        return nil
    }

    private func isDelimiter(at index: Int, in cursor: ByteCursor) -> Bool {
        guard delimiter.count <= cursor.count - index else { return false }
        for (number, byte) in delimiter.enumerated() where cursor[index + number] != byte { return false }
        return true
    }
}
