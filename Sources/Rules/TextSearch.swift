import PandoBytes

// Searches for one text in another, byte by byte: UTF-8 matches only at the beginning of a character.

extension Text {
    func contains(_ needle: Text) -> Bool {
        guard needle.utf8Count > 0 else { return true }
        return withBytes { bytes in
            needle.withBytes { part in TextSearch(part).firstMatch(of: part, in: bytes, from: 0) != nil }
        }
    }

    func hasPrefix(_ prefix: Text) -> Bool {
        guard prefix.utf8Count <= utf8Count else { return false }
        return withBytes { bytes in prefix.withBytes { part in Self.stands(part, in: bytes, at: 0) } }
    }

    func hasSuffix(_ suffix: Text) -> Bool {
        guard suffix.utf8Count <= utf8Count else { return false }
        let start = utf8Count - suffix.utf8Count
        return withBytes { bytes in suffix.withBytes { part in Self.stands(part, in: bytes, at: start) } }
    }

    private static func stands(_ part: Span<UInt8>, in bytes: Span<UInt8>, at start: Int) -> Bool {
        for index in part.indices where bytes[start &+ index] != part[index] { return false }
        return true
    }

    /// The text with every `old` replaced, from left to right. Nothing is replaced when `old` is empty.
    /// - Returns: nil when the result would have more than `byteLimit` bytes.
    func replacing(_ old: Text, with new: Text, byteLimit: Int) -> Text? {
        guard old.utf8Count > 0 else { return self }
        let output = withBytes { bytes in
            old.withBytes { part in
                new.withBytes { replacement in
                    TextSearch(part).replace(part, with: replacement, in: bytes, byteLimit: byteLimit)
                }
            }
        }
        return output.map { Text(utf8: $0.span) }
    }

    /// The number of UTF-16 code units: the length in JavaScript.
    var utf16Count: Int {
        withBytes { bytes in
            var count = 0
            for index in bytes.indices {
                let byte = bytes[index]
                // A character counts at its first byte, twice when it is beyond U+FFFF.
                if byte & 0xC0 != 0x80 { count &+= byte >= 0xF0 ? 2 : 1 }
            }
            return count
        }
    }
}

/// A search for a text. Clients may choose both texts, so the search must be linear: for long texts the
/// algorithm of Knuth, Morris and Pratt, for short ones a plain search.
private struct TextSearch {
    /// For each prefix of a long needle, the length of its longest proper prefix that is also its suffix.
    private var borders: [Int32] = []

    private static let shortByteCount = 16

    /// - Parameter bytes: The text to search for; not empty.
    init(_ bytes: Span<UInt8>) {
        guard bytes.count > Self.shortByteCount else { return }
        borders.reserveCapacity(bytes.count)
        borders.append(0)
        var length = 0
        for index in 1..<bytes.count {
            while length > 0, bytes[index] != bytes[length] { length = Int(borders[length &- 1]) }
            if bytes[index] == bytes[length] { length &+= 1 }
            borders.append(Int32(length))
        }
    }

    /// - Parameter part: The text that the search was made for.
    func firstMatch(of part: Span<UInt8>, in bytes: Span<UInt8>, from start: Int) -> Int? {
        guard !borders.isEmpty else { return plainMatch(of: part, in: bytes, from: start) }
        var length = 0
        for index in start..<max(start, bytes.count) {
            while length > 0, bytes[index] != part[length] { length = Int(borders[length &- 1]) }
            if bytes[index] == part[length] { length &+= 1 }
            if length == part.count { return index &+ 1 &- length }
        }
        return nil
    }

    /// - Returns: nil when the result would be too long.
    func replace(
        _ part: Span<UInt8>, with replacement: Span<UInt8>, in bytes: Span<UInt8>, byteLimit: Int
    ) -> [UInt8]? {
        var output: [UInt8] = []
        var copied = 0
        while let match = firstMatch(of: part, in: bytes, from: copied) {
            output.append(unsafe bytes.extracting(copied..<match).bytes)
            output.append(unsafe replacement.bytes)
            guard output.count <= byteLimit else { return nil }
            copied = match + part.count
        }
        output.append(unsafe bytes.extracting(copied..<bytes.count).bytes)
        return output.count <= byteLimit ? output : nil
    }

    private func plainMatch(of part: Span<UInt8>, in bytes: Span<UInt8>, from start: Int) -> Int? {
        var index = start
        while index &+ part.count <= bytes.count {
            var length = 0
            while length < part.count, bytes[index &+ length] == part[length] { length &+= 1 }
            if length == part.count { return index }
            index &+= 1
        }
        return nil
    }
}
