import PandoBytes

extension Ruleset {
    /// The document as compact JSON (RFC 8259): without comments and trailing commas, with line ends and tabs
    /// inside strings escaped, and otherwise as it was spelled (rest §10, `format=strict`). O(bytes).
    package var strictJSON: [UInt8] {
        var output: [UInt8] = []
        output.reserveCapacity(source.bytes.count)
        var lexer = RulesLexer(source)
        var owesComma = false
        // The document was loaded before, so no token can fail.
        while let token = try? lexer.next(), token.kind != .end {
            if owesComma, token.kind != .closeObject, token.kind != .closeArray {
                output.append(UInt8(ascii: ","))
            }
            owesComma = token.kind == .comma
            guard !owesComma else { continue }
            for byte in source.bytes[token.range] {
                switch byte {
                case 0x09: output.append(#"\t"#)
                case 0x0A: output.append(#"\n"#)
                case 0x0D: output.append(#"\r"#)
                default: output.append(byte)
                }
            }
        }
        return output
    }
}
