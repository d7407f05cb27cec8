import PandoBytes

// Writing heads (RFC 9112 §3, §4, §5) and chunks (RFC 9112 §7.1) into a growing buffer. A head is a start
// line, fields, and `appendEndOfHead()`:
//
//     output.append(statusLine: .ok)
//     output.append(field: "Content-Type", "application/json; charset=utf-8")
//     output.append(field: "Content-Length", decimal: UInt64(body.count))
//     output.appendEndOfHead()

extension [UInt8] {
    /// Appends `HTTP/1.1 200 OK` and CR LF.
    package mutating func append(statusLine status: HTTPStatus) {
        append("HTTP/1.1 " as StaticString)
        append(decimal: UInt64(status.code))
        append(0x20)
        append(status.reasonPhrase)
        append("\r\n" as StaticString)
    }

    /// Appends `GET /path HTTP/1.1` and CR LF. Bytes that a target may not have are percent-encoded, so that
    /// a target made from a user's text cannot end the line.
    package mutating func append(requestLine method: StaticString, target: String) {
        append(method)
        append(0x20)
        for byte in target.utf8 {
            if isTargetByte(byte) {
                append(byte)
            } else {
                append(escape: byte)
            }
        }
        append(" HTTP/1.1\r\n" as StaticString)
    }

    /// Appends a field with a constant value.
    package mutating func append(field name: StaticString, _ value: StaticString) {
        append(name)
        append(": " as StaticString)
        append(value)
        append("\r\n" as StaticString)
    }

    /// Appends a field. Control characters of `value` become spaces (RFC 9110 §5.5), so that a value made
    /// from a user's text cannot begin another line.
    package mutating func append(field name: StaticString, text value: String) {
        append(name)
        append(": " as StaticString)
        for byte in value.utf8 { append(byte < 0x20 || byte == 0x7F ? 0x20 : byte) }
        append("\r\n" as StaticString)
    }

    /// Appends a field with a number.
    package mutating func append(field name: StaticString, decimal value: UInt64) {
        append(name)
        append(": " as StaticString)
        append(decimal: value)
        append("\r\n" as StaticString)
    }

    /// Appends the request's `X-Request-ID`, by which the client finds its request in the log; nothing where
    /// it has none.
    package mutating func append(requestID id: ArraySlice<UInt8>?) {
        guard let id else { return }
        append("X-Request-ID: " as StaticString)
        self += id
        append("\r\n" as StaticString)
    }

    /// Appends the empty line that ends a head.
    package mutating func appendEndOfHead() {
        append("\r\n" as StaticString)
    }

    /// Appends one chunk of a chunked body. Appends nothing for no bytes: an empty chunk would end the body.
    package mutating func append(chunk bytes: RawSpan) {
        guard bytes.byteCount > 0 else { return }
        let size = UInt64(bytes.byteCount)
        var shift = (63 - size.leadingZeroBitCount) / 4 * 4
        while shift >= 0 {
            append(hexDigit(UInt8(size >> UInt64(shift) & 15)))
            shift -= 4
        }
        append("\r\n" as StaticString)
        append(bytes)
        append("\r\n" as StaticString)
    }

    /// Appends the end of a chunked body.
    package mutating func appendLastChunk() {
        append("0\r\n\r\n" as StaticString)
    }
}

extension [UInt8] {
    /// Appends `%XX`.
    package mutating func append(escape byte: UInt8) {
        append(0x25)
        append(hexDigit(byte >> 4))
        append(hexDigit(byte & 15))
    }
}

private func hexDigit(_ value: UInt8) -> UInt8 {
    value < 10 ? 0x30 &+ value : 0x37 &+ value
}
