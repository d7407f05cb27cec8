import PandoHTTP

//  attachment; filename="report.json"
//  attachment; filename="Z_rich.json"; filename*=UTF-8''Z%C3%BCrich.json         RFC 6266 §4.3, RFC 8187 §3.2

extension [UInt8] {
    /// Appends the field that has a browser save the body as a file. A name that not every client would read
    /// as it is stands in it twice: with `_` in place of its characters, for clients without `filename*`, and
    /// whole.
    /// - Parameter name: Without quotes, backslashes and control characters.
    mutating func append(attachment name: String) {
        append("Content-Disposition: attachment; filename=\"" as StaticString)
        for scalar in name.unicodeScalars {
            append(Self.isPlain(scalar) ? UInt8(truncatingIfNeeded: scalar.value) : UInt8(ascii: "_"))
        }
        append(UInt8(ascii: "\""))
        if !name.unicodeScalars.allSatisfy(Self.isPlain) {
            append("; filename*=UTF-8''" as StaticString)
            for byte in name.utf8 {
                if Self.isAttributeCharacter(byte) { append(byte) } else { append(escape: byte) }
            }
        }
        append("\r\n" as StaticString)
    }

    /// Whether every client reads the character in `filename` as it is. Some take `%` for the beginning of an
    /// escape (RFC 6266, appendix D).
    private static func isPlain(_ scalar: Unicode.Scalar) -> Bool {
        (0x20..<0x7F).contains(scalar.value) && scalar != "%"
    }

    /// `attr-char` of RFC 8187 §3.2.1: what needs no escape in `filename*`.
    private static func isAttributeCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "!"), UInt8(ascii: "#"), UInt8(ascii: "$"),
            UInt8(ascii: "&"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "^"),
            UInt8(ascii: "_"), UInt8(ascii: "`"), UInt8(ascii: "|"), UInt8(ascii: "~"):
            true
        default: false
        }
    }
}
