// Text that clients have sent is compared and searched as bytes. `String` compares canonical forms instead,
// and to normalise a run of combining characters takes time quadratic in its length: seconds for the head of
// one request.

extension Text {
    package var isEmpty: Bool { utf8Count == 0 }

    /// The text as a `String` where it is ASCII, for which that is its own canonical form; nil for any other.
    /// O(bytes).
    package var asciiString: String? { isASCII ? string : nil }

    /// O(bytes).
    package var isASCII: Bool { allSatisfy { $0 < 0x80 } }

    /// A copy of the UTF-8 bytes.
    package var bytes: [UInt8] {
        withBytes { bytes in unsafe bytes.withUnsafeBufferPointer { unsafe Array($0) } }
    }

    /// Whether a predicate holds for all UTF-8 bytes; true without any.
    package func allSatisfy(_ isWanted: (UInt8) -> Bool) -> Bool {
        withBytes { bytes in
            for index in bytes.indices where !isWanted(bytes[index]) { return false }
            return true
        }
    }

    /// The number that the text is: ASCII digits only, at least one, without a sign.
    /// - Returns: nil for any other text, and for a number beyond the type's range.
    package func number<Value: FixedWidthInteger>(as type: Value.Type = Value.self) -> Value? {
        guard !isEmpty, allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
        return Value(string)
    }

    /// Whether the text is this one. O(its bytes); nothing is allocated.
    package func equals(_ literal: StaticString) -> Bool {
        utf8Count == literal.utf8CodeUnitCount && withBytes { $0.equals(literal) }
    }
}

extension Span<UInt8> {
    /// Whether the bytes are this text. O(its bytes).
    @inlinable
    package func equals(_ literal: StaticString) -> Bool {
        guard count == literal.utf8CodeUnitCount else { return false }
        // In bounds: both have the same number of bytes.
        for index in indices where unsafe self[index] != literal.utf8Start[index] { return false }
        return true
    }
}
