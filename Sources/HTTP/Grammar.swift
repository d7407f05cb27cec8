import PandoBytes

// The character classes and small productions of RFC 9110 §5.6 and RFC 3986 §3.2.

/// `tchar`: what methods, header names and list tokens are made of.
func isTokenByte(_ byte: UInt8) -> Bool {
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

/// What a target may hold. Wider than RFC 3986: people type `?orderBy="height"` and raw UTF-8 into curl, and
/// no two parsers disagree about where such a target ends. `#` never travels.
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

/// True when the bytes are `text` but for ASCII case. `text` must be lower case.
func equalsIgnoringCase(_ bytes: some RandomAccessCollection<UInt8>, _ text: StaticString) -> Bool {
    guard bytes.count == text.utf8CodeUnitCount else { return false }
    var index = 0
    for byte in bytes {
        // In bounds: both have the same count.
        guard unsafe lowercased(byte) == text.utf8Start[index] else { return false }
        index &+= 1
    }
    return true
}

/// The slice without spaces and tabs at its ends.
func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    var rest = bytes
    while let first = rest.first, isWhitespace(first) { rest.removeFirst() }
    while let last = rest.last, isWhitespace(last) { rest.removeLast() }
    return rest
}

/// Checks `uri-host [ ":" port ]` (RFC 9110 §7.2). Empty is allowed: RFC 9112 §3.2 asks for an empty Host
/// when the target has no authority. User information is not: it has misled people about where a link leads.
func isValidAuthority(_ bytes: ArraySlice<UInt8>) -> Bool {
    var rest = bytes
    if rest.first == UInt8(ascii: "[") {
        guard let end = rest.firstIndex(of: UInt8(ascii: "]")), end > rest.startIndex + 1 else {
            return false
        }
        for byte in rest[(rest.startIndex + 1)..<end] {
            guard hexValue(byte) != nil || byte == UInt8(ascii: ":") || byte == UInt8(ascii: ".") else {
                return false
            }
        }
        rest = rest[(end + 1)...]
    } else {
        let end = rest.firstIndex(of: UInt8(ascii: ":")) ?? rest.endIndex
        for byte in rest[..<end] {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"),
                UInt8(ascii: "~"), UInt8(ascii: "%"), UInt8(ascii: "!"), UInt8(ascii: "$"), UInt8(ascii: "&"),
                UInt8(ascii: "'"), UInt8(ascii: "("), UInt8(ascii: ")"), UInt8(ascii: "*"), UInt8(ascii: "+"),
                UInt8(ascii: ","), UInt8(ascii: ";"), UInt8(ascii: "="):
                continue
            default: return false
            }
        }
        rest = rest[end...]
    }
    guard let colon = rest.first else { return true }
    let port = rest.dropFirst()
    return colon == UInt8(ascii: ":") && port.count <= 5 && port.allSatisfy(isDigit)
}
