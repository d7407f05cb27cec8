import PandoHTTP

/// Reads what an HTTP connection has written, as a client does, and says it in short text: `200 {"a":1}`,
/// `404 {…}, close`, `event: put {…}`.
final class ResponseReader {
    private enum Phase {
        case head
        case fixed(line: String, left: Int, isLast: Bool)
        case chunked(line: String, isLast: Bool)
        case stream
        /// Behind the handshake of a WebSocket: frames.
        case raw
    }

    private var phase = Phase.head
    private var bytes: [UInt8] = []
    private var body: [UInt8] = []
    /// Bytes at the front in which no mark was found.
    private var searchedCount = 0
    /// The heads so far, as they were sent.
    private(set) var heads: [String] = []
    /// The bodies of responses so far.
    private(set) var bodies: [[UInt8]] = []
    /// The requests that are answered are HEAD: no body follows a head.
    var hasNoBodies = false

    /// Bytes of a response that is not complete.
    var unfinishedByteCount: Int { bytes.count + body.count }

    /// Bytes behind the handshake of a WebSocket.
    var rawBytes: [UInt8] { if case .raw = phase { bytes } else { [] } }

    /// Takes bytes, and says what they complete.
    func read(_ new: [UInt8]) -> [String] {
        bytes += new
        var found: [String] = []
        while let next = next() { found.append(next) }
        return found
    }

    private func next() -> String? {
        switch phase {
        case .head: return readHead()
        case .fixed(let line, let left, let isLast):
            guard bytes.count >= left else { return nil }
            body = Array(bytes.prefix(left))
            bytes.removeFirst(left)
            return end(line, isLast)
        case .chunked(let line, let isLast):
            while let (size, start) = chunkSize() {
                guard bytes.count >= start + size + 2 else { return nil }
                body += bytes[start..<(start + size)]
                bytes.removeFirst(start + size + 2)
                if size == 0 { return end(line, isLast) }
            }
            return nil
        case .stream:
            guard let end = position(of: "\n\n") else { return nil }
            let event = text(bytes[..<end])
            bytes.removeFirst(end + 2)
            return shortened(event.split(separator: "\n", maxSplits: 1).joined(separator: " "), to: 200)
        case .raw: return nil
        }
    }

    private func readHead() -> String? {
        guard let end = position(of: "\r\n\r\n") else { return nil }
        let head = text(bytes[..<end])
        bytes.removeFirst(end + 4)
        let lines = head.split(separator: "\r\n").map(String.init)
        let status = String(lines[0].dropFirst("HTTP/1.1 ".count).prefix(3))
        if status == "100" { return "100" }
        heads.append(head)
        if status == "101" {
            phase = .raw
            return "101"
        }
        func field(_ name: String) -> String? {
            let prefix = name.lowercased() + ": "
            return lines.first { $0.lowercased().hasPrefix(prefix) }.map {
                String($0.dropFirst(prefix.count))
            }
        }
        let isLast = field("connection") == "close"
        if field("content-type")?.hasPrefix("text/event-stream") == true {
            phase = .stream
            return "\(status) stream"
        }
        if hasNoBodies || status == "204" || status == "304" {
            body = []
            return self.end(status, isLast)
        }
        if field("transfer-encoding") == "chunked" {
            phase = .chunked(line: status + " chunked", isLast: isLast)
        } else {
            phase = .fixed(
                line: status, left: field("content-length").flatMap { Int($0) } ?? 0, isLast: isLast)
        }
        return next()
    }

    private func end(_ line: String, _ isLast: Bool) -> String {
        phase = .head
        defer { body = [] }
        bodies.append(body)
        let shown =
            body.count > 400
            ? "\(body.count) bytes"
            : body.split { $0 == 0x20 || $0 == 0x0A }.map { text($0) }.joined(separator: " ")
        return line + (shown.isEmpty ? "" : " " + shown) + (isLast ? ", close" : "")
    }

    /// The size of the next chunk, and where its bytes begin.
    private func chunkSize() -> (Int, Int)? {
        guard let end = position(of: "\r\n"), let size = Int(text(bytes[..<end]), radix: 16) else {
            return nil
        }
        return (size, end + 2)
    }

    private func position(of mark: String) -> Int? {
        let mark = Array(mark.utf8)
        var index = min(searchedCount, bytes.count)
        while index + mark.count <= bytes.count {
            if bytes[index] == mark[0], bytes[index...].starts(with: mark) {
                searchedCount = 0
                return index
            }
            index += 1
        }
        searchedCount = index
        return nil
    }
}
