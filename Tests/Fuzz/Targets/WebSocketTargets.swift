import PandoBytes
import PandoCompression
import PandoWebSocket

// MARK: - Frames

//  input    flags (1): client's side, text is checked, permessage-deflate │ size of the pieces (1) │ frames

private let messageByteLimit = 1 << 16

/// Frames, compressed or not: the same messages in pieces and as a whole, within the limits.
@Sendable func checkFrames(_ input: [UInt8]) throws {
    var reader = InputReader(input)
    let flags = reader.byte()
    let size = reader.byte()
    let bytes = reader.remainder()
    let whole = try read(bytes, inPiecesOf: .max, flags: flags)
    let cut = try read(bytes, inPiecesOf: size, flags: flags)
    try require(whole == cut, "whole \(whole), in pieces of \(size) \(cut)")
}

private func read(_ bytes: [UInt8], inPiecesOf size: Int, flags: Int) throws -> [String] {
    let direction = DeflateAgreement.Direction(takesOver: flags & 8 != 0, windowBits: 15)
    let inflater = flags & 4 == 0 ? nil : try MessageInflater(direction)
    var reader = MessageReader(
        role: flags & 1 == 0 ? .server : .client, messageByteLimit: messageByteLimit,
        checksText: flags & 2 != 0, inflater: inflater)
    var events: [String] = []
    for piece in pieces(bytes, of: size) {
        var window = piece
        var span = window.mutableSpan
        var raw = unsafe span.mutableBytes
        var offset = 0
        do throws(ProtocolViolation) {
            while let event = try reader.next(&raw, from: &offset) {
                let (name, payload) =
                    switch event {
                    case .text(let payload): ("text", payload)
                    case .binary(let payload): ("binary", payload)
                    case .compressed(_, let payload): ("compressed", payload)
                    case .ping(let payload): ("ping", payload)
                    case .pong(let payload): ("pong", payload)
                    case .close(let code, let reason): ("close \(code?.rawValue ?? 0)", reason)
                    }
                var copy: [UInt8] = []
                reader.withBytes(of: payload, in: raw) { copy.append($0) }
                events.append("\(name) \(copy.count) \(digest(copy))")
                if copy.count > messageByteLimit { events.append("beyond the limit") }
            }
            if offset != piece.count { events.append("a reader that wants more left bytes") }
        } catch {
            return events + ["\(error)"]
        }
    }
    try require(!events.contains("beyond the limit"), "a message exceeds the limit")
    try require(!events.contains("a reader that wants more left bytes"), "bytes were left")
    return events
}

/// FNV-1a: enough to tell two results apart.
private func digest(_ bytes: [UInt8]) -> UInt64 {
    bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
}

// MARK: - Deflate

//  input    flags (1): window, plain or compressed, gzip │ size of the pieces (1) │ bytes

private let inflatedByteLimit = 1 << 18

/// Data that is compressed is the same when it is inflated; any bytes are inflated to the same in pieces and
/// as a whole, within the limit.
@Sendable func checkDeflate(_ input: [UInt8]) throws {
    var reader = InputReader(input)
    let flags = reader.byte()
    let size = reader.byte()
    let bytes = reader.remainder()
    if flags & 8 == 0 {
        let coding = CompressionCoding.raw(windowBits: 9 + flags % 7)
        let deflater = try Deflater(coding)
        var compressed: [UInt8] = []
        for piece in pieces(bytes, of: size) {
            deflater.deflate(piece.rawSpan, flush: .sync, into: &compressed)
        }
        deflater.deflate([UInt8]().rawSpan, flush: .finish, into: &compressed)
        let result = try inflate([compressed], coding)
        try require(result == .success(bytes), "\(bytes.count) bytes are not the same behind deflate")
    } else if flags & 16 == 0 {
        // With a smaller window, what zlib finds of references that reach too far back depends on the pieces.
        let coding = CompressionCoding.raw(windowBits: 15)
        let whole = try inflate([bytes], coding)
        let cut = try inflate(pieces(bytes, of: size), coding)
        try require(whole == cut, "whole \(whole), in pieces of \(size) \(cut)")
    } else {
        let whole = try gunzip([bytes])
        let cut = try gunzip(pieces(bytes, of: size))
        try require(whole == cut, "whole \(whole), in pieces of \(size) \(cut)")
    }
}

private enum Inflated: Equatable {
    case success([UInt8])
    case failure
}

private func inflate(_ pieces: [[UInt8]], _ coding: CompressionCoding) throws -> Inflated {
    let inflater = try Inflater(coding)
    var output: [UInt8] = []
    for piece in pieces {
        var offset = 0
        while offset < piece.count {
            let outcome: Inflater.Outcome
            do throws(CompressionError) {
                outcome = try inflater.inflate(
                    piece.rawSpan, from: &offset, atMost: inflatedByteLimit - output.count, into: &output)
            } catch {
                return .failure
            }
            try require(output.count <= inflatedByteLimit && offset <= piece.count, "beyond the limit")
            switch outcome {
            case .end: return .success(output)
            case .full: return .failure
            case .needsInput: break
            }
        }
    }
    return .success(output)
}

private func gunzip(_ pieces: [[UInt8]]) throws -> Inflated {
    var body = try GzipBody(byteLimit: inflatedByteLimit)
    var output: [UInt8] = []
    do throws(GzipBody.Problem) {
        for piece in pieces { try body.inflate(piece.rawSpan, into: &output) }
        try body.finish()
    } catch {
        try require(output.count <= inflatedByteLimit + 1, "beyond the limit")
        return .failure
    }
    return .success(output)
}
