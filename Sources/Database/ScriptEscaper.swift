import PandoBytes

/// Writes a message's JSON as JavaScript; the parts of one message come one after the other, cut between
/// characters. What is one thing in JSON and another in a script:
///
/// - U+2028 and U+2029 may stand in strings; before ECMAScript 2019 they end a line there.
/// - A member `"__proto__":` of an object literal sets the object's prototype; `["__proto__"]:` is a member.
package struct ScriptEscaper {
    /// Of what was appended last, the bytes that the next part may still change.
    package static let openByteCount = prototypeMember.count - 1
    /// As the server writes a member of that name.
    private static let prototypeMember = Array("\"__proto__\":".utf8)

    /// Bytes of ``prototypeMember`` that the last bytes are.
    private var matchedCount = 0
    private var isBehindBackslash = false

    package init() {}

    /// Appends the next part of a message.
    /// - Complexity: O(bytes), eight at once where none of them may begin what is escaped.
    package mutating func escape(_ json: RawSpan, into script: inout [UInt8]) {
        var (matchedCount, isBehindBackslash) = (matchedCount, isBehindBackslash)
        withCursor(over: json) { cursor in
            var start = 0
            while !cursor.isAtEnd {
                if matchedCount == 0, Self.passOrdinaryBytes(&cursor) {
                    isBehindBackslash = cursor.peek(-1) == UInt8(ascii: "\\")
                }
                let byte = cursor.current
                if matchedCount > 0 {
                    guard byte == Self.prototypeMember[matchedCount] else {
                        // This byte may begin another.
                        matchedCount = 0
                        isBehindBackslash = false
                        continue
                    }
                    matchedCount += 1
                    if matchedCount == Self.prototypeMember.count {
                        script.append(json.extracting(start..<cursor.offset))
                        // In bounds: the name, which holds nothing that is escaped, was the last to be
                        // appended.
                        script.insert(UInt8(ascii: "["), at: script.count - (matchedCount - 1))
                        script.append(UInt8(ascii: "]"))
                        start = cursor.offset
                        matchedCount = 0
                        isBehindBackslash = false
                    }
                } else if byte == UInt8(ascii: "\"") {
                    // In a string a quotation mark stands behind a backslash, and a string that ends is
                    // followed by no letter.
                    matchedCount = isBehindBackslash ? 0 : 1
                    isBehindBackslash = false
                } else if byte == 0xE2, cursor.remaining >= 3, cursor.peek(1) == 0x80,
                    cursor.peek(2) & 0xFE == 0xA8
                {
                    script.append(json.extracting(start..<cursor.offset))
                    script.append(cursor.peek(2) == 0xA8 ? "\\u2028" : "\\u2029" as StaticString)
                    cursor.advance(3)
                    start = cursor.offset
                    isBehindBackslash = false
                    continue
                } else {
                    isBehindBackslash = byte == UInt8(ascii: "\\")
                }
                cursor.advance()
            }
            script.append(json.extracting(start..<json.byteCount))
        }
        (self.matchedCount, self.isBehindBackslash) = (matchedCount, isBehindBackslash)
    }

    /// Moves to the next byte that is followed as in `"_` or in U+2028, but not to the last one: what follows
    /// it is in the next part.
    /// - Returns: Whether it moved.
    @inline(__always)
    private static func passOrdinaryBytes(_ cursor: inout ByteCursor) -> Bool {
        let start = cursor.offset
        while let word = cursor.word, let following = cursor.word(1) {
            // Zero where a byte and the one behind it are those of the pair.
            let member = (word ^ everyByte(0x22)) | (following ^ everyByte(0x5F))
            let separator = (word ^ everyByte(0xE2)) | (following ^ everyByte(0x80))
            // The lowest mark of both is the lowest one of either, and so it is right.
            let marks = markZeros(member) | markZeros(separator)
            cursor.advance(byteCount(below: marks))
            guard marks == 0 else { break }
        }
        return cursor.offset > start
    }
}
