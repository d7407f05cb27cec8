/// How the peer's frames violate RFC 6455. The stream cannot be read any further.
package enum ProtocolViolation: Error, Hashable, Sendable {
    /// RSV bits without an extension that uses them (RFC 6455 §5.2).
    case reservedBitsSet
    case reservedOpcode(UInt8)
    case unmaskedClientFrame
    case maskedServerFrame
    case fragmentedControlFrame
    case controlFrameTooLong
    /// A continuation without a message to continue (RFC 6455 §5.4).
    case unexpectedContinuation
    /// A new message before the last one was finished (RFC 6455 §5.4).
    case unfinishedMessage
    /// A length that a shorter form could hold (RFC 6455 §5.2).
    case lengthNotMinimal
    case lengthTopBitSet
    case messageTooBig(byteLimit: Int)
    case invalidUTF8
    /// A close frame with one byte: neither empty nor a code (RFC 6455 §5.5.1).
    case truncatedCloseCode
    case invalidCloseCode(UInt16)

    /// The close code to send (RFC 6455 §7.4.1).
    package var closeCode: CloseCode {
        switch self {  // No `default`: each new violation needs a code here.
        case .reservedBitsSet, .reservedOpcode, .unmaskedClientFrame, .maskedServerFrame,
            .fragmentedControlFrame,
            .controlFrameTooLong, .unexpectedContinuation, .unfinishedMessage, .lengthNotMinimal,
            .lengthTopBitSet,
            .truncatedCloseCode, .invalidCloseCode:
            .protocolError
        case .messageTooBig: .messageTooBig
        case .invalidUTF8: .invalidPayload
        }
    }
}
