import PandoBytes

// The character classes and small productions of RFC 9110 §5.6 and RFC 3986 §3.2.

/// `tchar`: the bytes of methods, field names and list tokens.
package func isTokenByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"):
        true
    case UInt8(ascii: "!"), UInt8(ascii: "#"), UInt8(ascii: "$"), UInt8(ascii: "%"), UInt8(ascii: "&"),
        UInt8(ascii: "'"), UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."),
        UInt8(ascii: "^"), UInt8(ascii: "_"), UInt8(ascii: "`"), UInt8(ascii: "|"), UInt8(ascii: "~"):
        true
    default: false
    }
}

/// The bytes that a target may have. More than in RFC 3986: people type `?orderBy="height"` and raw UTF-8
/// into curl, and all parsers agree where such a target ends. Clients do not send the fragment, so `#` is not
/// allowed.
func isTargetByte(_ byte: UInt8) -> Bool {
    byte > 0x20 && byte != 0x7F && byte != UInt8(ascii: "#")
}

func isWhitespace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

func isDigit(_ byte: UInt8) -> Bool { byte >= 0x30 && byte <= 0x39 }

func hexValue(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte &- 0x30
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte &- 0x57
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte &- 0x37
    default: nil
    }
}

func lowercased(_ byte: UInt8) -> UInt8 {
    byte >= 0x41 && byte <= 0x5A ? byte | 0x20 : byte
}

extension Span<UInt8> {
    /// The first index of `range` whose byte fulfils the condition, or the range's end.
    func firstIndex(in range: Range<Int>, where matches: (UInt8) -> Bool) -> Int {
        var index = range.lowerBound
        while index < range.upperBound, !matches(self[index]) { index += 1 }
        return index
    }

    /// Whether the bytes are `text`, ASCII case ignored. `text` must be lower case.
    package func equals(ignoringCase text: StaticString) -> Bool {
        guard count == text.utf8CodeUnitCount else { return false }
        // In bounds: both have the same count.
        for index in indices where unsafe lowercased(self[index]) != text.utf8Start[index] { return false }
        return true
    }

    /// Whether the bytes begin with `text`.
    package func hasPrefix(_ text: StaticString) -> Bool {
        count >= text.utf8CodeUnitCount && extracting(..<text.utf8CodeUnitCount).equals(text)
    }

    /// Whether the bytes end with `text`.
    package func hasSuffix(_ text: StaticString) -> Bool {
        count >= text.utf8CodeUnitCount && extracting((count - text.utf8CodeUnitCount)...).equals(text)
    }

    /// Whether the bytes begin with `text`, ASCII case ignored. `text` must be lower case.
    func hasPrefix(ignoringCase text: StaticString) -> Bool {
        count >= text.utf8CodeUnitCount && extracting(..<text.utf8CodeUnitCount).equals(ignoringCase: text)
    }
}

/// The slice without spaces and tabs at its ends.
func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    var rest = bytes
    while let first = rest.first, isWhitespace(first) { rest.removeFirst() }
    while let last = rest.last, isWhitespace(last) { rest.removeLast() }
    return rest
}

/// Whether the bytes are `uri-host [ ":" port ]` (RFC 9110 §7.2). Empty is allowed: RFC 9112 §3.2 demands an
/// empty Host when the target has no authority. User information is not: it is used to disguise the host of a
/// link. Nor is a name with an empty label, which no host has (RFC 1035 §3.1), but for the one behind the dot
/// of an absolute name.
func isValidAuthority(_ bytes: Span<UInt8>) -> Bool {
    let end = bytes.count
    var index = 0
    if end > 0, bytes[0] == UInt8(ascii: "[") {
        let close = bytes.firstIndex(in: 1..<end) {
            hexValue($0) == nil && $0 != UInt8(ascii: ":") && $0 != UInt8(ascii: ".")
        }
        guard close > 1, close < end, bytes[close] == UInt8(ascii: "]") else { return false }
        index = close + 1
    } else {
        index = bytes.firstIndex(in: 0..<end) { !isHostByte($0) }
        guard !hasEmptyLabel(bytes, in: 0..<index) else { return false }
    }
    guard index < end else { return true }
    let port = (index + 1)..<end
    return bytes[index] == UInt8(ascii: ":") && port.count <= 5
        && bytes.firstIndex(in: port) { !isDigit($0) } == end
}

private func hasEmptyLabel(_ bytes: Span<UInt8>, in name: Range<Int>) -> Bool {
    let dot = UInt8(ascii: ".")
    return name.contains { index in
        bytes[index] == dot && (index == name.lowerBound || bytes[index - 1] == dot)
    }
}

/// The bytes of a registered name or an IPv4 address (RFC 3986 §3.2.2).
private func isHostByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "~"), UInt8(ascii: "%"), UInt8(ascii: "!"), UInt8(ascii: "$"), UInt8(ascii: "&"),
        UInt8(ascii: "'"), UInt8(ascii: "("), UInt8(ascii: ")"), UInt8(ascii: "*"), UInt8(ascii: "+"),
        UInt8(ascii: ","), UInt8(ascii: ";"), UInt8(ascii: "="):
        true
    default: false
    }
}
