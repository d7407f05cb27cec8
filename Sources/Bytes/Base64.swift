// Base64 (RFC 4648): the standard alphabet with padding for hashes and handshakes, the URL-safe one for
// tokens and long polling.

/// Which two characters stand for 62 and 63.
package enum Base64Alphabet: Sendable {
    /// `+` and `/` (RFC 4648 §4).
    case standard
    /// `-` and `_` (RFC 4648 §5).
    case urlSafe

    fileprivate var digits: StaticString {
        switch self {
        case .standard: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        case .urlSafe: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        }
    }

    fileprivate func value(of digit: UInt8) -> UInt32? {
        switch digit {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(digit) - 65
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(digit) - 71
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(digit) + 4
        case UInt8(ascii: "+") where self == .standard, UInt8(ascii: "-") where self == .urlSafe: 62
        case UInt8(ascii: "/") where self == .standard, UInt8(ascii: "_") where self == .urlSafe: 63
        default: nil
        }
    }
}

extension [UInt8] {
    /// Appends the Base64 of `bytes`: with `=` padding for `.standard`, without for `.urlSafe`. O(bytes).
    package mutating func append(base64 bytes: RawSpan, alphabet: Base64Alphabet = .standard) {
        let digits = unsafe alphabet.digits.utf8Start
        func digit(_ value: UInt32) -> UInt32 {
            // In bounds: six bits index 64 digits.
            unsafe UInt32(digits[Int(value & 63)])
        }
        func fourDigits(_ group: UInt32) -> UInt32 {
            digit(group >> 18) | digit(group >> 12) << 8 | digit(group >> 6) << 16 | digit(group) << 24
        }
        withCursor(over: bytes) { cursor in
            while cursor.remaining >= 3 {
                let group =
                    UInt32(cursor.peek(0)) << 16 | UInt32(cursor.peek(1)) << 8 | UInt32(cursor.peek(2))
                cursor.advance(3)
                append(littleEndian: fourDigits(group))
            }
            let left = cursor.remaining
            guard left > 0 else { return }
            let last = fourDigits(UInt32(cursor.peek(0)) << 16 | UInt32(cursor.peek(1)) << 8)
            for index in 0...left { append(UInt8(truncatingIfNeeded: last >> UInt32(8 * index))) }
            if alphabet == .standard { append(contentsOf: repeatElement(0x3D, count: 3 - left)) }
        }
    }
}

/// Decodes Base64, with or without padding. O(bytes).
/// - Returns: nil for a character that is not in the alphabet, an impossible length, or unused bits that are
///   not zero.
package func decodeBase64(_ text: RawSpan, alphabet: Base64Alphabet = .standard) -> [UInt8]? {
    withCursor(over: text) { cursor in
        var count = cursor.count
        var padding = 0
        while count > 0, padding < 2, cursor[count - 1] == 0x3D {
            count -= 1
            padding += 1
        }
        guard padding == 0 || (count + padding) % 4 == 0, count % 4 != 1 else { return nil }
        var output: [UInt8] = []
        output.reserveCapacity(count * 3 / 4)
        var bits: UInt32 = 0
        var bitCount: UInt32 = 0
        for index in 0..<count {
            guard let value = alphabet.value(of: cursor[index]) else { return nil }
            bits = (bits << 6 | value) & 0xFFFFFF
            bitCount += 6
            if bitCount >= 8 {
                bitCount -= 8
                output.append(UInt8(truncatingIfNeeded: bits >> bitCount))
            }
        }
        guard bits & ((1 << bitCount) - 1) == 0 else { return nil }
        return output
    }
}
