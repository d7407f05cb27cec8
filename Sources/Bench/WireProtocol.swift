import PandoBytes
import PandoTraffic

/// What the measured server speaks on top of WebSocket messages.
enum WireProtocol {
    /// `pando-echo`: a message is the stamp and nothing else, and comes back as it went.
    case bare(path: String)
    /// A database, through the realtime protocol (realtime §3): the stamp is the value of a put.
    case realtime(namespace: String)

    /// Path and query of the upgrade request.
    var target: String {
        switch self {
        case .bare(let path): path
        case .realtime(let namespace): "/.ws?v=5&ns=\(namespace)"
        }
    }

    /// Whether the server speaks first (§3.2, verb `h`).
    var awaitsGreeting: Bool {
        switch self {
        case .bare: false
        case .realtime: true
        }
    }

    /// Appends the message that sends stamp number `sequence`; under `.realtime`, a put at `path` (§4.5).
    func appendRequest(
        _ sequence: Int, path: String, stampByteCount: Int, to output: inout [UInt8]
    ) {
        guard case .realtime = self else {
            return Stamp.append(sequence, byteCount: stampByteCount, to: &output)
        }
        output.append(#"{"t":"d","d":{"r":"#)
        output.append(decimal: Int64(sequence))
        output.append(#","a":"p","b":{"p":"/"#)
        output.append(utf8: path)
        output.append(#"","d":""#)
        Stamp.append(sequence, byteCount: stampByteCount, to: &output)
        output.append(#""}}}"#)
    }

    /// The request number of a listen: puts begin at 1, and a number is any integer (§3.3).
    static let listenNumber = 0

    /// Appends a listen at `path` by a client that has nothing (§4.2).
    static func appendListen(path: String, to output: inout [UInt8]) {
        output.append(#"{"t":"d","d":{"r":"#)
        output.append(decimal: Int64(listenNumber))
        output.append(#","a":"q","b":{"p":"/"#)
        output.append(utf8: path)
        output.append(#"","h":""}}}"#)
    }

    /// The number of the request that `text` answers with success: the stamp that came back, or the `r` of an
    /// `ok`. nil for anything else.
    func answered(_ text: RawSpan, stampByteCount: Int, hint: inout Int) -> Int? {
        switch self {
        case .bare: Stamp.read(text, byteCount: stampByteCount, hint: &hint)
        case .realtime: WireProtocol.acknowledged(text)
        }
    }

    /// The `r` of `{"t":"d","d":{"r":12,"b":{"s":"ok",…}}}`, in any order of keys.
    static func acknowledged(_ text: RawSpan) -> Int? {
        withCursor(over: text) { cursor in
            guard cursor.skip(past: #""r":"#) else { return nil }
            var number = 0
            var digitCount = 0
            while digitCount < 16, cursor.current >= 0x30, cursor.current <= 0x39 {
                number = number * 10 + Int(cursor.current - 0x30)
                digitCount += 1
                cursor.advance()
            }
            let end = cursor.offset
            if !cursor.skip(past: #""s":"ok""#) {
                // The keys may come the other way round.
                cursor.offset = 0
                guard cursor.skip(past: #""s":"ok""#), cursor.offset < end else { return nil }
            }
            return digitCount > 0 ? number : nil
        }
    }

    /// Whether `text` is the server's greeting (§3.2).
    static func isGreeting(_ text: RawSpan) -> Bool {
        withCursor(over: text) { $0.skip(past: #""t":"h""#) }
    }
}

extension ByteCursor {
    /// Moves behind the first occurrence of `words`.
    /// - Returns: false when there is none; the cursor is at the end then.
    fileprivate mutating func skip(past words: StaticString) -> Bool {
        // In bounds: indexes below the count.
        let count = words.utf8CodeUnitCount
        let first = unsafe words.utf8Start[0]
        search: while remaining >= count {
            if current == first {
                var index = 1
                while index < count {
                    guard unsafe peek(index) == words.utf8Start[index] else {
                        advance()
                        continue search
                    }
                    index += 1
                }
                advance(count)
                return true
            }
            advance()
        }
        offset = self.count
        return false
    }
}
