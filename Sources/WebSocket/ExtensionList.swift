import PandoBytes
import PandoHTTP

/// One element of `Sec-WebSocket-Extensions` (RFC 6455 §9.1): an extension's name and its parameters, in
/// order. Case counts.
struct ExtensionElement: Equatable, Sendable {
    struct Parameter: Equatable, Sendable {
        var name: String
        /// Without quotation marks; nil where there is no `=`.
        var value: String?
    }

    var name: String
    var parameters: [Parameter] = []
}

/// Reads the values of `Sec-WebSocket-Extensions` (RFC 6455 §9.1), all field lines together:
///
///     extension-list  = 1#extension
///     extension       = token *( ";" extension-param )
///     extension-param = token [ "=" ( token | quoted-string ) ]     a quoted string must hold a token
///
/// Spaces and tabs may stand around every separator, and elements of a list may be empty (RFC 9110 §5.6.1).
/// - Returns: nil where a line does not follow the grammar: the handshake must fail.
/// - Complexity: O(bytes).
func readExtensions(_ lines: [Text]) -> [ExtensionElement]? {
    var elements: [ExtensionElement] = []
    for line in lines {
        var reader = ExtensionListReader(line.bytes)
        guard reader.read(into: &elements) else { return nil }
    }
    return elements
}

private struct ExtensionListReader {
    private let bytes: [UInt8]
    private var offset = 0

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    mutating func read(into elements: inout [ExtensionElement]) -> Bool {
        while true {
            skipSpaces()
            if offset == bytes.count { return true }
            if skip(",") { continue }
            guard let element = readElement() else { return false }
            elements.append(element)
            guard offset == bytes.count || skip(",") else { return false }
        }
    }

    private mutating func readElement() -> ExtensionElement? {
        guard let name = readToken() else { return nil }
        var element = ExtensionElement(name: name)
        while true {
            skipSpaces()
            guard skip(";") else { return element }
            skipSpaces()
            guard let name = readToken() else { return nil }
            skipSpaces()
            var parameter = ExtensionElement.Parameter(name: name)
            if skip("=") {
                skipSpaces()
                guard let value = skip("\"") ? readQuoted() : readToken() else { return nil }
                parameter.value = value
            }
            element.parameters.append(parameter)
        }
    }

    private mutating func readToken() -> String? {
        let start = offset
        while offset < bytes.count, isTokenByte(bytes[offset]) { offset += 1 }
        return offset > start ? String(decoding: bytes[start..<offset], as: UTF8.self) : nil
    }

    /// The rest of a quoted string, from behind its first quotation mark.
    private mutating func readQuoted() -> String? {
        var content: [UInt8] = []
        while offset < bytes.count {
            var byte = bytes[offset]
            offset += 1
            if byte == UInt8(ascii: "\"") {
                return content.isEmpty ? nil : String(decoding: content, as: UTF8.self)
            }
            if byte == UInt8(ascii: "\\") {
                guard offset < bytes.count else { return nil }
                byte = bytes[offset]
                offset += 1
            }
            guard isTokenByte(byte) else { return nil }
            content.append(byte)
        }
        return nil
    }

    private mutating func skip(_ character: Unicode.Scalar) -> Bool {
        guard offset < bytes.count, bytes[offset] == UInt8(ascii: character) else { return false }
        offset += 1
        return true
    }

    private mutating func skipSpaces() {
        while offset < bytes.count, bytes[offset] == 0x20 || bytes[offset] == 0x09 { offset += 1 }
    }
}
