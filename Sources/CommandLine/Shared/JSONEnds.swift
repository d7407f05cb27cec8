import Foundation
import PandoTree

/// Whether a text that comes in pieces is one whole JSON value, in memory for its depth only: its brackets,
/// its strings, and what may stand between them. It finds a text that was cut off, and one of another format;
/// it does not check where commas and colons stand.
struct JSONEnds {
    private enum State {
        case value, string, escape, number, end, malformed
    }

    private var state = State.value
    /// The closing brackets that are still to come.
    private var closing: [UInt8] = []
    /// A value that is neither an object, nor an array, nor a string.
    private var token: [UInt8] = []

    /// The deepest brackets of data: those of its keys, and of a leaf with a priority.
    static let depthLimit = Limits.pathDepth + 1
    /// The longest number or word at the root.
    private static let tokenByteLimit = 64

    mutating func read(_ bytes: [UInt8]) {
        for byte in bytes {
            switch state {
            case .string:
                if byte == UInt8(ascii: "\\") {
                    state = .escape
                } else if byte == UInt8(ascii: "\"") {
                    state = closing.isEmpty ? .end : .value
                }
            case .escape: state = .string
            case .value: readValue(byte)
            case .number:
                if Self.isSpace(byte) {
                    state = .end
                } else if token.count < Self.tokenByteLimit {
                    token.append(byte)
                } else {
                    state = .malformed
                }
            case .end: if !Self.isSpace(byte) { state = .malformed }
            case .malformed: return
            }
        }
    }

    private mutating func readValue(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "{"), UInt8(ascii: "["):
            guard closing.count < Self.depthLimit else { return state = .malformed }
            closing.append(byte == UInt8(ascii: "{") ? UInt8(ascii: "}") : UInt8(ascii: "]"))
        case UInt8(ascii: "}"), UInt8(ascii: "]"):
            guard closing.popLast() == byte else { return state = .malformed }
            if closing.isEmpty { state = .end }
        case UInt8(ascii: "\""): state = .string
        case _ where Self.isSpace(byte): break
        case _ where closing.isEmpty:
            token.append(byte)
            state = .number
        case UInt8(ascii: ","), UInt8(ascii: ":"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "E"):
            break
        default: state = .malformed
        }
    }

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09
    }

    /// Whether what was read is a whole value.
    var isComplete: Bool {
        switch state {
        case .value, .string, .escape, .malformed: return false
        case .number, .end:
            guard !token.isEmpty else { return true }
            return (try? JSONSerialization.jsonObject(with: Data(token), options: .fragmentsAllowed)) != nil
        }
    }
}
