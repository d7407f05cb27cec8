/// The parts of a request line, as ranges of the head's buffer.
struct RequestLine {
    let method: Range<Int>
    let authority: Range<Int>?
    let path: Range<Int>
    let query: Range<Int>?
    let version: HTTPVersion
    /// The target is `*`: the request is about the server (RFC 9112 §3.2.4). Then the path is empty.
    let isAsterisk: Bool

    /// - Parameter line: Its range in `bytes`.
    init(_ bytes: Span<UInt8>, _ line: Range<Int>, limits: HeadLimits) throws(HTTPError) {
        let end = line.upperBound
        let methodEnd = bytes.firstIndex(in: line) { !isTokenByte($0) }
        guard methodEnd > line.lowerBound, methodEnd < end, bytes[methodEnd] == 0x20 else {
            throw .malformedRequestLine
        }
        method = line.lowerBound..<methodEnd
        guard method.count <= HeadLimits.methodByteLimit else { throw .methodTooLong }

        var start = methodEnd + 1
        // Stops at the first byte that is illegal in a target; a space ends it.
        var targetEnd = bytes.firstIndex(in: start..<end) { !isTargetByte($0) }
        var isLegal = true
        if targetEnd < end, bytes[targetEnd] != 0x20 {
            isLegal = false
            targetEnd = bytes.firstIndex(in: targetEnd..<end) { $0 == 0x20 }
        }
        guard targetEnd < end else { throw .malformedRequestLine }
        guard targetEnd - start <= limits.targetByteLimit else { throw .targetTooLong }
        guard start < targetEnd, isLegal else { throw .malformedTarget }
        guard let version = try parseVersion(bytes.extracting((targetEnd + 1)..<end)) else {
            throw .malformedRequestLine
        }
        self.version = version

        isAsterisk = targetEnd - start == 1 && bytes[start] == UInt8(ascii: "*")
        if isAsterisk {
            // Only for this method.
            guard bytes.extracting(method).equals("OPTIONS") else { throw .malformedTarget }
            (authority, path, query) = (nil, start..<start, nil)
            return
        }
        if bytes[start] == UInt8(ascii: "/") {
            authority = nil
        } else {
            // absolute-form (RFC 9112 §3.2.2). authority-form is for CONNECT, which is not supported.
            let target = bytes.extracting(start..<targetEnd)
            if target.hasPrefix(ignoringCase: "http://") {
                start += 7
            } else if target.hasPrefix(ignoringCase: "https://") {
                start += 8
            } else {
                throw .malformedTarget
            }
            let end = bytes.firstIndex(in: start..<targetEnd) {
                $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?")
            }
            guard start < end, isValidAuthority(bytes.extracting(start..<end)) else { throw .malformedTarget }
            authority = start..<end
            start = end
        }
        let pathEnd = bytes.firstIndex(in: start..<targetEnd) { $0 == UInt8(ascii: "?") }
        path = start..<pathEnd
        query = pathEnd < targetEnd ? (pathEnd + 1)..<targetEnd : nil
        if let query {
            var separatorCount = 0
            for index in query where bytes[index] == UInt8(ascii: "&") { separatorCount += 1 }
            guard separatorCount < HeadLimits.queryPairLimit else { throw .tooManyQueryPairs }
        }
    }
}
