import PandoBytes

/// The `name=value` pairs of a target's query, in order. Decoding is lenient, because some Firebase clients
/// do not encode values (realtime §1.1): `:` and `=` are allowed in a value, and a `%` that begins no
/// escape stays.
package struct QueryString: Sendable {
    /// One pair, decoded.
    package struct Pair: Equatable, Sendable {
        package let name: Text
        /// Empty for `name=`; nil for `name` alone.
        package let value: Text?

        package init(name: Text, value: Text?) {
            self.name = name
            self.value = value
        }
    }

    package let pairs: [Pair]

    package init(_ pairs: [Pair]) { self.pairs = pairs }

    /// - Parameters:
    ///   - bytes: The query without `?`.
    ///   - plusIsSpace: Form encoding, as REST clients use (rest §1.1); realtime clients do not.
    package init(_ bytes: ArraySlice<UInt8>, plusIsSpace: Bool) {
        var pairs: [Pair] = []
        var start = bytes.startIndex
        while start < bytes.endIndex {
            let end = bytes[start...].firstIndex(of: UInt8(ascii: "&")) ?? bytes.endIndex
            let pair = bytes[start..<end]
            start = end + 1
            guard !pair.isEmpty else { continue }
            let separator = pair.firstIndex(of: UInt8(ascii: "="))
            pairs.append(
                Pair(
                    name: decodePercent(pair[..<(separator ?? pair.endIndex)], plusIsSpace: plusIsSpace),
                    value: separator.map { decodePercent(pair[($0 + 1)...], plusIsSpace: plusIsSpace) }))
        }
        self.pairs = pairs
    }

    /// The value of the first pair of that name; empty when the pair has none; nil when there is no such
    /// pair.
    package subscript(_ name: StaticString) -> Text? {
        for pair in pairs where pair.name.equals(name) { return pair.value ?? "" }
        return nil
    }

    /// Whether there is a pair of that name.
    package func contains(_ name: StaticString) -> Bool { count(of: name) > 0 }

    /// How many pairs have that name.
    package func count(of name: StaticString) -> Int { pairs.count { $0.name.equals(name) } }
}

extension RequestHead {
    /// The pairs of the target's query; none without one.
    package func query(plusIsSpace: Bool) -> QueryString {
        QueryString(queryBytes ?? [], plusIsSpace: plusIsSpace)
    }
}

/// Decodes `%XX`. A `%` without two hex digits stays. Text that would not be UTF-8 is not decoded; bytes that
/// were not UTF-8 before become U+FFFD.
package func decodePercent(_ bytes: ArraySlice<UInt8>, plusIsSpace: Bool) -> Text {
    // Mostly there is nothing to decode.
    if bytes.allSatisfy({ $0 != UInt8(ascii: "%") && !(plusIsSpace && $0 == UInt8(ascii: "+")) }) {
        return Text(decoding: bytes.span)
    }
    let decoded = decodePercentBytes(bytes, plusIsSpace: plusIsSpace)
    return isValidUTF8(decoded.rawSpan) ? Text(utf8: decoded.span) : Text(decoding: bytes.span)
}

/// Decodes `%XX` to bytes, for callers that check the result themselves. A `%` without two hex digits stays.
package func decodePercentBytes(_ bytes: ArraySlice<UInt8>, plusIsSpace: Bool) -> [UInt8] {
    var decoded: [UInt8] = []
    decoded.reserveCapacity(bytes.count)
    var index = bytes.startIndex
    while index < bytes.endIndex {
        let byte = bytes[index]
        if byte == UInt8(ascii: "%"), bytes.endIndex - index > 2,
            let high = hexValue(bytes[index + 1]), let low = hexValue(bytes[index + 2])
        {
            decoded.append(high << 4 | low)
            index += 3
        } else {
            decoded.append(plusIsSpace && byte == UInt8(ascii: "+") ? 0x20 : byte)
            index += 1
        }
    }
    return decoded
}

/// Encodes every byte as `%XX` that is not unreserved (RFC 3986 §2.3), and dots, so that no segment of a path
/// is taken for `.` or `..`. For a segment, and for a name or a value of a query. O(bytes).
package func encodePercent(_ bytes: some Sequence<UInt8>) -> String {
    var encoded: [UInt8] = []
    for byte in bytes {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "~"):
            encoded.append(byte)
        default: encoded.append(escape: byte)
        }
    }
    return String(decoding: encoded, as: UTF8.self)
}
