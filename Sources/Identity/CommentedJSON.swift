/// The JSON of a configuration file: people write comments into it, and a comma behind the last member.
package enum CommentedJSON {
    /// The JSON without `//` and `/* */` comments, and without commas before a closing bracket: each of their
    /// bytes becomes a space, so that a position in the result is that in the file. Texts stay as they are. A
    /// block comment without an end stays, too, and is an error of whatever reads the JSON. O(bytes).
    package static func withoutComments(_ json: [UInt8]) -> [UInt8] {
        var result = json
        var offset = 0
        /// A comma behind which nothing but white space and comments came.
        var lastComma: Int?
        while offset < json.count {
            switch json[offset] {
            case UInt8(ascii: "\""):
                lastComma = nil
                offset = endOfText(json, from: offset)
            case UInt8(ascii: "/"):
                guard let end = endOfComment(json, from: offset) else { return result }
                for index in offset..<end where json[index] != 0x0A && json[index] != 0x0D {
                    result[index] = 0x20
                }
                offset = end
            case UInt8(ascii: ","):
                lastComma = offset
                offset += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                if let comma = lastComma { result[comma] = 0x20 }
                lastComma = nil
                offset += 1
            case 0x09, 0x0A, 0x0D, 0x20: offset += 1
            default:
                lastComma = nil
                offset += 1
            }
        }
        return result
    }

    /// The offset behind the closing quote of the text that begins at `start`; the end where there is none.
    private static func endOfText(_ json: [UInt8], from start: Int) -> Int {
        var offset = start + 1
        while offset < json.count {
            switch json[offset] {
            case UInt8(ascii: "\""): return offset + 1
            case UInt8(ascii: "\\"): offset += 2
            default: offset += 1
            }
        }
        return json.count
    }

    /// The offset behind the comment that begins at `start`; nil where none begins, or it has no end.
    private static func endOfComment(_ json: [UInt8], from start: Int) -> Int? {
        guard start + 1 < json.count else { return nil }
        switch json[start + 1] {
        case UInt8(ascii: "/"):
            return json[start...].firstIndex { $0 == 0x0A || $0 == 0x0D } ?? json.count
        case UInt8(ascii: "*"):
            var offset = start + 2
            while offset + 1 < json.count {
                if json[offset] == UInt8(ascii: "*"), json[offset + 1] == UInt8(ascii: "/") {
                    return offset + 2
                }
                offset += 1
            }
            return nil
        default: return nil
        }
    }
}
