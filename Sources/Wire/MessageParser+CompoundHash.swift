import PandoBytes
import PandoTree

extension MessageParser {
    /// Reads `ch` (wire-protocol §9.6). nil for what is JSON but no compound hash: the server may do without (§4.2).
    mutating func readCompoundHash() throws(MalformedJSON) -> CompoundHash? {
        guard peek() == UInt8(ascii: "{") else {
            try skip()
            return nil
        }
        var paths: [Text]?
        var hashes: [Text]?
        try readObject { (parser, name) throws(MalformedJSON) in
            switch name {
            case .ps: paths = try parser.readTexts()
            case .hs: hashes = try parser.readTexts()
            default: try parser.skip()
            }
        }
        guard let paths, let hashes, hashes.count == paths.count + 1 else { return nil }
        let ends = paths.map(Self.rangeEnd)
        // Ranges follow one another, or the hashes cannot be compared.
        for (end, next) in zip(ends, ends.dropFirst()) where Path.compare(end, next) >= 0 { return nil }
        return CompoundHash(paths: ends, hashes: hashes)
    }

    /// An array of strings, or nil.
    private mutating func readTexts() throws(MalformedJSON) -> [Text]? {
        guard peek() == UInt8(ascii: "[") else {
            try skip()
            return nil
        }
        drafts.reader.cursor.advance()
        var texts: [Text] = []
        var areAllTexts = true
        if drafts.reader.take(UInt8(ascii: "]")) { return texts }
        repeat {
            if case .value(let text) = try readText() { texts.append(text) } else { areAllTexts = false }
        } while drafts.reader.take(UInt8(ascii: ","))
        try drafts.reader.expect(UInt8(ascii: "]"))
        return areAllTexts ? texts : nil
    }

    /// The last leaf of a range. It is only compared with what is stored, so its keys need not be legal ones, nor
    /// those deeper than any leaf apart.
    private static func rangeEnd(_ text: Text) -> Path {
        Path(
            text.string.utf8.split(separator: UInt8(ascii: "/"), maxSplits: Limits.pathDepth + 2)
                .map { Key(unchecked: Text(String(Substring($0)))) })
    }
}
