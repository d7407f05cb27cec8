import PandoBytes
import PandoHTTP
import PandoWebSocket

/// The events of a stream, wherever their bytes were.
enum Seen: Equatable, CustomStringConvertible {
    case text([UInt8]), binary([UInt8]), compressed([UInt8]), ping([UInt8]), pong([UInt8])
    case close(UInt16?, [UInt8])
    case violation(ProtocolViolation)

    var description: String {
        func brief(_ bytes: [UInt8]) -> String { bytes.count <= 16 ? "\(bytes)" : "[\(bytes.count) bytes]" }
        return switch self {
        case .text(let bytes): "text\(brief(bytes))"
        case .binary(let bytes): "binary\(brief(bytes))"
        case .compressed(let bytes): "compressed\(brief(bytes))"
        case .ping(let bytes): "ping\(brief(bytes))"
        case .pong(let bytes): "pong\(brief(bytes))"
        case .close(let code, let reason): "close(\(code.map(String.init) ?? "-") \(brief(reason)))"
        case .violation(let violation): "violation(\(violation))"
        }
    }
}

/// The reader under test, with the stream cut at `cuts` (ascending offsets).
func read(
    _ stream: [UInt8], cuts: [Int], role: Role = .server, checksText: Bool = true,
    messageByteLimit: Int = 1 << 24
) -> [Seen] {
    var reader = MessageReader(role: role, messageByteLimit: messageByteLimit, checksText: checksText)
    var seen: [Seen] = []
    var start = 0
    for end in cuts + [stream.count] {
        var window = Array(stream[start..<end])
        start = end
        read(&window, with: &reader, into: &seen)
        if case .violation = seen.last { return seen }
    }
    return seen
}

/// Passes one input, and checks that all of it was read.
func read(_ window: inout [UInt8], with reader: inout MessageReader, into seen: inout [Seen]) {
    let count = window.count
    var mutable = window.mutableSpan
    var bytes = unsafe mutable.mutableBytes
    var offset = 0
    do {
        while let event = try reader.next(&bytes, from: &offset) {
            switch event {
            case .text(let payload): seen.append(.text(reader.withBytes(of: payload, in: bytes, copy)))
            case .binary(let payload): seen.append(.binary(reader.withBytes(of: payload, in: bytes, copy)))
            case .compressed(_, let payload):
                seen.append(.compressed(reader.withBytes(of: payload, in: bytes, copy)))
            case .ping(let payload): seen.append(.ping(reader.withBytes(of: payload, in: bytes, copy)))
            case .pong(let payload): seen.append(.pong(reader.withBytes(of: payload, in: bytes, copy)))
            case .close(let code, let reason):
                seen.append(.close(code?.rawValue, reader.withBytes(of: reason, in: bytes, copy)))
            }
        }
        precondition(offset == count, "a reader that wants more has taken everything")
    } catch {
        seen.append(.violation(error))
    }
}

func copy(_ bytes: RawSpan) -> [UInt8] {
    var output: [UInt8] = []
    output.append(bytes)
    return output
}

/// Ascending offsets that cut `count` bytes into pieces of `size`.
func cuts(every size: Int, of count: Int) -> [Int] {
    Array(stride(from: size, to: count, by: size))
}

/// A frame written as RFC 6455 §5.2 describes it, valid or not as asked.
struct TestFrame {
    var opcode: UInt8
    var payload: [UInt8] = []
    var isFinal = true
    var reserved: UInt8 = 0
    /// nil: no mask.
    var key: [UInt8]? = [0x37, 0xFA, 0x21, 0x3D]

    var bytes: [UInt8] {
        let mask: UInt8 = key == nil ? 0 : 0x80
        var output = [(isFinal ? 0x80 : 0) | reserved << 4 | opcode]
        let count = payload.count
        if count < 126 {
            output.append(mask | UInt8(count))
        } else if count < 65_536 {
            output += [mask | 126, UInt8(count >> 8), UInt8(count & 255)]
        } else {
            output.append(mask | 127)
            for shift in stride(from: 56, through: 0, by: -8) { output.append(UInt8(count >> shift & 255)) }
        }
        output += key ?? []
        for (index, byte) in payload.enumerated() { output.append(byte ^ (key?[index % 4] ?? 0)) }
        return output
    }
}

/// A simple decoder: reads the complete stream, copies everything, checks byte by byte.
func decodeNaively(
    _ stream: [UInt8], role: Role, checksText: Bool = true, messageByteLimit: Int = 1 << 24
) -> [Seen] {
    var seen: [Seen] = []
    var rest = stream[...]
    var message: (isText: Bool, bytes: [UInt8])?
    func failed(_ violation: ProtocolViolation) -> [Seen] { seen + [.violation(violation)] }

    while let first = rest.popFirst() {
        let opcode = first & 15
        let isFinal = first >= 0x80
        if first & 0x70 != 0 { return failed(.reservedBitsSet) }
        switch opcode {
        case 0: if message == nil { return failed(.unexpectedContinuation) }
        case 1, 2: if message != nil { return failed(.unfinishedMessage) }
        case 8, 9, 10: if !isFinal { return failed(.fragmentedControlFrame) }
        default: return failed(.reservedOpcode(opcode))
        }
        guard let second = rest.popFirst() else { return seen }
        if role == .server, second < 0x80 { return failed(.unmaskedClientFrame) }
        if role == .client, second >= 0x80 { return failed(.maskedServerFrame) }
        if opcode >= 8, second & 127 > 125 { return failed(.controlFrameTooLong) }
        var length = UInt64(second & 127)
        let keyCount = role == .server ? 4 : 0
        if length >= 126 {
            let wide = length == 127
            let size = wide ? 8 : 2
            guard rest.count >= size + keyCount else { return seen }
            length = rest.prefix(size).reduce(0) { $0 << 8 | UInt64($1) }
            rest = rest.dropFirst(size)
            if length >= 1 << 63 { return failed(.lengthTopBitSet) }
            if length < (wide ? 65_536 : 126) { return failed(.lengthNotMinimal) }
        }
        guard rest.count >= keyCount else { return seen }
        let key = Array(rest.prefix(keyCount))
        rest = rest.dropFirst(keyCount)
        if opcode < 8, length + UInt64(message?.bytes.count ?? 0) > messageByteLimit {
            return failed(.messageTooBig(byteLimit: messageByteLimit))
        }
        if opcode == 1 || opcode == 2 { message = (opcode == 1, []) }
        var payload: [UInt8] = []
        while payload.count < length, let byte = rest.popFirst() {
            payload.append(byte ^ (key.isEmpty ? 0 : key[payload.count % 4]))
        }
        let isWhole = payload.count == length
        if opcode < 8, var open = message {
            open.bytes += payload
            message = open
            if open.isText, checksText {
                let isGood = isWhole && isFinal ? isWholeUTF8(open.bytes) : isPrefixOfUTF8(open.bytes)
                if !isGood { return failed(.invalidUTF8) }
            }
            if !isWhole { return seen }
            if isFinal {
                seen.append(open.isText ? .text(open.bytes) : .binary(open.bytes))
                message = nil
            }
            continue
        }
        if !isWhole { return seen }
        if opcode == 9 { seen.append(.ping(payload)) }
        if opcode == 10 { seen.append(.pong(payload)) }
        if opcode == 8 {
            if payload.isEmpty { return seen + [.close(nil, [])] }
            if payload.count == 1 { return failed(.truncatedCloseCode) }
            let code = UInt16(payload[0]) * 256 + UInt16(payload[1])
            let good = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014] as [UInt16]
            if !good.contains(code), code < 3000 || code > 4999 { return failed(.invalidCloseCode(code)) }
            let reason = Array(payload[2...])
            if !isWholeUTF8(reason) { return failed(.invalidUTF8) }
            return seen + [.close(code, reason)]
        }
    }
    return seen
}

/// The standard library decides.
func isWholeUTF8(_ bytes: [UInt8]) -> Bool {
    String(validating: bytes, as: UTF8.self) != nil
}

/// Whether some continuation makes it valid: one of these does, if any does.
func isPrefixOfUTF8(_ bytes: [UInt8]) -> Bool {
    let endings: [[UInt8]] = [
        [], [0x80], [0x80, 0x80], [0x90, 0x80, 0x80], [0xA0, 0x80], [0x80, 0x80, 0x80],
    ]
    return endings.contains { isWholeUTF8(bytes + $0) }
}

/// What a client's handshake and a server with these options agree on.
func bothSides(_ client: ClientHandshake, _ options: DeflateOptions) throws -> DeflateAgreement? {
    var request: [UInt8] = []
    client.appendRequest(target: "/", host: "x", to: &request)
    var requestReader = RequestHeadReader()
    var offset = 0
    guard let head = try requestReader.read(request.rawSpan, from: &offset) else { return nil }
    var output: [UInt8] = []
    try ServerHandshake(head, deflate: options).appendResponse(to: &output)
    var responseReader = ResponseHeadReader()
    offset = 0
    guard let answer = try responseReader.read(output.rawSpan, from: &offset) else { return nil }
    return try client.check(answer)
}
