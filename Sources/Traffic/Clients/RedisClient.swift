import PandoBytes

//  RESP, as Redis 7 speaks it:
//
//      request   *3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n
//      replies   +OK\r\n   -ERR text\r\n   :12\r\n   $5\r\nvalue\r\n   $-1\r\n   *3\r\n… (a push to a subscriber)

/// Redis: SET, GET and DEL; PUBLISH and SUBSCRIBE.
final class RedisClient: StreamClient {
    private let setting = StampedRequest()
    private let publishing = StampedRequest()
    private var subscribed = false

    override func set(_ path: @autoclosure () -> String, place: Int, _ request: Pending) {
        if !setting.fits(place: place) { make(setting, "SET", path(), place: place) }
        pending.append((0, request))
        setting.with(request) { write($0) }
    }

    override func publish(_ path: @autoclosure () -> String, place: Int, _ request: Pending) {
        if !publishing.fits(place: place) { make(publishing, "PUBLISH", path(), place: place) }
        pending.append((0, request))
        publishing.with(request) { write($0) }
    }

    private func make(_ request: StampedRequest, _ verb: StaticString, _ path: String, place: Int) {
        var value: [UInt8] = []
        Stamp.append(0, time: 0, byteCount: context.plan.size, to: &value)
        let output = Self.request(verb, path, value)
        // Behind the value stands the end of its line.
        request.become(output, place: place, stampOffset: output.count - value.count - 2)
    }

    override func listen(_ path: String, _ request: Pending) {
        subscribed = true
        send("SUBSCRIBE", path, request)
    }

    override func fetch(_ path: String, _ request: Pending) {
        if subscribed { send("PING", nil, request) } else { send("GET", path, request) }
    }

    override func remove(_ path: String, _ request: Pending) { send("DEL", path, request) }

    private func send(_ verb: StaticString, _ path: String?, _ request: Pending) {
        pending.append((0, request))
        write(Self.request(verb, path, nil).rawSpan)
    }

    private static func request(_ verb: StaticString, _ path: String?, _ value: [UInt8]?) -> [UInt8] {
        var output: [UInt8] = []
        output.append(UInt8(ascii: "*"))
        output.append(decimal: UInt64(1 + (path == nil ? 0 : 1) + (value == nil ? 0 : 1)))
        output.append("\r\n")
        append(bulkOf: verb.utf8CodeUnitCount, to: &output) { $0.append(verb) }
        if let path { append(bulkOf: path.utf8.count, to: &output) { $0.append(utf8: path) } }
        if let value { append(bulkOf: value.count, to: &output) { $0.append(contentsOf: value) } }
        return output
    }

    private static func append(
        bulkOf count: Int, to output: inout [UInt8], _ content: (inout [UInt8]) -> Void
    ) {
        output.append(UInt8(ascii: "$"))
        output.append(decimal: UInt64(count))
        output.append("\r\n")
        content(&output)
        output.append("\r\n")
    }

    override func read(_ bytes: RawSpan) -> Int {
        var used = 0
        while used < bytes.byteCount {
            if RESPReply.isOK(bytes, at: used) {
                replied(.ok, bytes.extracting(used..<(used + RESPReply.okByteCount)))
                used += RESPReply.okByteCount
                continue
            }
            guard let reply = RESPReply.read(bytes.extracting(droppingFirst: used)) else { break }
            guard reply.byteCount > 0 else {
                fail("no RESP")
                return bytes.byteCount
            }
            let text = bytes.extracting(used..<(used + reply.byteCount))
            used += reply.byteCount
            switch reply.kind {
            case .error: replied(.refused("error"), text)
            case .message: pushes.pushed(self, text)
            case .other: replied(.ok, text)
            }
        }
        return used
    }
}

/// One reply or push of a Redis server.
struct RESPReply: Equatable {
    enum Kind: Equatable { case error, message, other }

    /// Longest bulk that Redis has: 512 MiB.
    private static let bulkByteLimit = 512 << 20
    private static let elementLimit = 1024

    static let okByteCount = 5

    let kind: Kind
    /// 0: these bytes are no RESP.
    let byteCount: Int

    /// Whether `+OK` comes next, which is what most replies are.
    static func isOK(_ bytes: RawSpan, at offset: Int) -> Bool {
        withCursor(over: bytes) { cursor in
            cursor.advance(offset)
            return cursor.consume("+OK\r\n")
        }
    }

    /// Reads one at the front of `bytes`; nil while it is not whole.
    static func read(_ bytes: RawSpan) -> RESPReply? {
        withCursor(over: bytes) { cursor in
            let malformed = RESPReply(kind: .other, byteCount: 0)
            let first = cursor.current
            if first != UInt8(ascii: "*") {
                guard let isWhole = skipSimple(&cursor) else { return malformed }
                return isWhole
                    ? RESPReply(kind: first == 0x2D ? .error : .other, byteCount: cursor.offset) : nil
            }
            cursor.advance()
            guard let line = number(&cursor) else { return cursor.isAtEnd ? nil : malformed }
            guard line >= 0, line <= elementLimit else { return malformed }
            var isMessage = false
            for index in 0..<line {
                // `$7 message`: what a subscriber is sent, as against the reply to SUBSCRIBE or PING.
                if index == 0 {
                    isMessage = cursor.peek(4) == 0x6D && cursor.peek(5) == 0x65 && cursor.peek(1) == 0x37
                }
                guard !cursor.isAtEnd else { return nil }
                guard let isWhole = skipSimple(&cursor) else { return malformed }
                guard isWhole else { return nil }
            }
            return RESPReply(kind: isMessage ? .message : .other, byteCount: cursor.offset)
        }
    }

    /// Skips anything but an array: true when it was whole, nil when it is none.
    private static func skipSimple(_ cursor: inout ByteCursor) -> Bool? {
        let kind = cursor.current
        cursor.advance()
        switch kind {
        case UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: ":"): return skipLine(&cursor)
        case UInt8(ascii: "$"):
            guard let count = number(&cursor) else { return cursor.isAtEnd ? false : nil }
            guard count >= 0 else { return count == -1 ? true : nil }
            guard count <= bulkByteLimit else { return nil }
            guard cursor.remaining >= count + 2 else { return false }
            cursor.advance(count + 2)
            return true
        default: return nil
        }
    }

    private static func skipLine(_ cursor: inout ByteCursor) -> Bool {
        while cursor.remaining >= 2 {
            if cursor.current == 0x0D, cursor.peek(1) == 0x0A {
                cursor.advance(2)
                return true
            }
            cursor.advance()
        }
        cursor.advance()
        return false
    }

    /// A number and the end of its line. nil when that has not come (the cursor is at the end) or is none.
    private static func number(_ cursor: inout ByteCursor) -> Int? {
        let isNegative = cursor.current == 0x2D
        if isNegative { cursor.advance() }
        var (value, digitCount) = (0, 0)
        while digitCount < 10, cursor.current >= 0x30, cursor.current <= 0x39 {
            value = value * 10 + Int(cursor.current - 0x30)
            digitCount += 1
            cursor.advance()
        }
        guard cursor.remaining >= 2 else {
            cursor.advance(cursor.remaining)
            return nil
        }
        guard digitCount > 0, cursor.current == 0x0D, cursor.peek(1) == 0x0A else { return nil }
        cursor.advance(2)
        return isNegative ? -value : value
    }
}
