/// A response as a client has read it (RFC 9112).
struct HTTPResponse {
    var status = 0
    /// Names in lower case.
    var fields: [String: String] = [:]
    var body: [UInt8] = []

    var isStream: Bool { fields["content-type"]?.hasPrefix("text/event-stream") ?? false }
    /// The server closes the connection behind it.
    var closesConnection: Bool { fields["connection"]?.lowercased() == "close" }

    /// Reads one response from the beginning of the buffer: of an event stream, or an upgrade, only its head.
    /// - Returns: Nil while it is not complete; then nothing is removed.
    /// - Throws: ``BrokenPromise`` for what is no response.
    static func read(from input: inout InputBuffer) throws(BrokenPromise) -> HTTPResponse? {
        guard let head = input.prefix(through: "\r\n\r\n") else { return nil }
        var response = try HTTPResponse(head: head)
        if response.status == 101 || response.status == 204 || response.isStream {
            _ = input.removeFirst(head.count)
            return response
        }
        if response.fields["transfer-encoding"] == "chunked" {
            guard let (body, byteCount) = chunks(input.rest.dropFirst(head.count)) else { return nil }
            _ = input.removeFirst(head.count + byteCount)
            response.body = body
            return response
        }
        guard let length = response.fields["content-length"].flatMap({ Int($0) }) else {
            throw BrokenPromise(description: "a response without a length: \(text(head))")
        }
        guard input.count >= head.count + length else { return nil }
        _ = input.removeFirst(head.count)
        response.body = Array(input.removeFirst(length))
        return response
    }

    private init(head: ArraySlice<UInt8>) throws(BrokenPromise) {
        let lines = Self.text(head).split(separator: "\r\n")
        let words = lines.first?.split(separator: " ") ?? []
        guard words.count >= 2, words[0] == "HTTP/1.1", let status = Int(words[1]) else {
            throw BrokenPromise(description: "no response: \(Self.text(head))")
        }
        self.status = status
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: ":") else {
                throw BrokenPromise(description: "no field of a response: \(line)")
            }
            fields[line[..<colon].lowercased()] = String(
                line[line.index(after: colon)...].drop { $0 == " " })
        }
    }

    /// - Returns: The body, and the bytes that it takes with its framing.
    private static func chunks(_ bytes: ArraySlice<UInt8>) -> (body: [UInt8], byteCount: Int)? {
        var (body, rest) = ([UInt8](), bytes)
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            let digits = text(rest[..<end]).prefix { $0.isHexDigit }
            guard let count = Int(digits, radix: 16) else { return nil }
            let data = rest[(end + 1)...]
            guard data.count >= count + 2 else { return nil }
            body += data.prefix(count)
            rest = data.dropFirst(count + 2)
            if count == 0 { return (body, bytes.count - rest.count) }
        }
        return nil
    }

    private static func text(_ bytes: ArraySlice<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }
}
