//   0               1               2               3
//  ┌─┬─┬─┬─┬───────┬─┬─────────────┬───────────────────────────────┐
//  │F│R│R│R│opcode │M│ length 7    │ length 16, if length 7 is 126 │   RFC 6455 §5.2; big-endian
//  │I│S│S│S│       │A│             │ length 64, if length 7 is 127 │
//  │N│V│V│V│       │S│             ├───────────────────────────────┤
//  │ │1│2│3│       │K│             │ masking key 32, if MASK       │
//  └─┴─┴─┴─┴───────┴─┴─────────────┴───────────────────────────────┘
//
//  The length must use the shortest form, and its 64-bit form must not use the top bit. RSV bits are 0
//  unless an extension was negotiated: with permessage-deflate, RSV1 in the first frame of a message says
//  that the message is compressed (RFC 7692 §6). Opcodes: 0 continuation, 1 text, 2 binary, 8 close, 9 ping,
//  10 pong. Opcodes from 8 on are control frames: at most 125 bytes, never fragmented, allowed between the
//  fragments of a message.

/// This end of the connection. A client masks its frames, a server does not (RFC 6455 §5.1).
package enum Role: Sendable {
    case server, client
}

/// The type of a frame (RFC 6455 §5.2, §11.8).
package enum Opcode: UInt8, Sendable {
    case continuation = 0x0
    case text = 0x1
    case binary = 0x2
    case close = 0x8
    case ping = 0x9
    case pong = 0xA

    var isControl: Bool { rawValue & 0x8 != 0 }
}

/// The size of a frame's header.
enum FrameHeader {
    /// Most payload of a control frame (RFC 6455 §5.5).
    static let controlByteLimit = 125

    /// RSV1 (RFC 7692 §6).
    static let compressedBit: UInt8 = 0x40
    static let reservedBits: UInt8 = 0x70

    /// The size of a header, from its second byte: 2…14.
    static func byteCount(second: UInt8) -> Int {
        let length = second & 0x7F
        return 2 &+ (length < 126 ? 0 : length == 126 ? 2 : 8) &+ Int(second >> 7) &* 4
    }
}

/// The status code of a close frame (RFC 6455 §7.4): any 16 bits. ``isSendable`` says which may be sent.
package struct CloseCode: RawRepresentable, Hashable, Sendable {
    package let rawValue: UInt16

    package init(rawValue: UInt16) { self.rawValue = rawValue }

    package static let normal = CloseCode(rawValue: 1000)
    package static let goingAway = CloseCode(rawValue: 1001)
    package static let protocolError = CloseCode(rawValue: 1002)
    package static let unsupportedData = CloseCode(rawValue: 1003)
    package static let invalidPayload = CloseCode(rawValue: 1007)
    package static let policyViolation = CloseCode(rawValue: 1008)
    package static let messageTooBig = CloseCode(rawValue: 1009)
    package static let internalError = CloseCode(rawValue: 1011)
    package static let tryAgainLater = CloseCode(rawValue: 1013)

    /// Whether a close frame may contain it: the codes of RFC 6455 §7.4.1 and of the IANA registry, except
    /// those that are for local use only (1005, 1006, 1015), and the ranges for libraries and applications
    /// (RFC 6455 §7.4.2).
    package var isSendable: Bool {
        switch rawValue {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }
}
