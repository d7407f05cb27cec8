/// How the peer's frames violate RFC 6455 or RFC 7692. The stream cannot be read any further.
package enum ProtocolViolation: Error, Hashable, Sendable {
    /// RSV bits without an extension that uses them (RFC 6455 §5.2), or RSV1 in a frame that may not have it:
    /// a control frame or a continuation (RFC 7692 §6.1).
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
    /// The message, or what it is inflated to.
    case messageTooBig(byteLimit: Int)
    case invalidUTF8
    /// A compressed message is not deflated data, or ends inside a block (RFC 7692 §7.2.2).
    case invalidDeflateData
    /// A compressed message grows to more than `limit` times its size (``InflationLimits``).
    case inflationRatioExceeded(limit: Int)
    /// This machine's fault: the system has no memory for the window.
    case noMemoryToInflate
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
        case .messageTooBig, .inflationRatioExceeded: .messageTooBig
        case .invalidUTF8, .invalidDeflateData: .invalidPayload
        case .noMemoryToInflate: .internalError
        }
    }
}
