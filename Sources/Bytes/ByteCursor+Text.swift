extension ByteCursor {
    /// As ``string(_:)``, as a ``Text``.
    package func text(_ range: Range<Int>) -> Text {
        unsafe withBytes(range) { unsafe Text(utf8: $0.span) }
    }

    /// The text of an absolute range; nil when it is not UTF-8. Traps outside.
    package func validText(_ range: Range<Int>) -> Text? {
        unsafe withBytes(range) { unsafe Text(validating: $0.span) }
    }

    /// The text of an absolute range; bytes that are not UTF-8 become U+FFFD, as in `String`. Traps outside.
    package func repairedText(_ range: Range<Int>) -> Text {
        unsafe withBytes(range) { unsafe Text(decoding: $0.span) }
    }
}
