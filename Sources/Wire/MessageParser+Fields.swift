import PandoBytes
import PandoTree

/// A member of an object, as it was received.
enum Field<Value> {
    case absent
    /// Another JSON type than the protocol demands.
    case wrongType
    /// The right type, but a value that violates the data model.
    case invalid(InvalidData)
    case value(Value)

    /// The value.
    /// - Throws: Why there is none.
    func required(_ name: String) throws(FieldError) -> Value {
        switch self {
        case .absent: throw .malformed(.missing(name))
        case .wrongType: throw .malformed(.wrongType(name))
        case .invalid(let problem): throw .invalid(problem)
        case .value(let value): return value
        }
    }

    /// As ``required(_:)``, and moves the value out: its references are not counted again. Leaves ``absent``.
    mutating func take(_ name: String) throws(FieldError) -> Value {
        switch exchange(&self, with: .absent) {
        case .absent: throw .malformed(.missing(name))
        case .wrongType: throw .malformed(.wrongType(name))
        case .invalid(let problem): throw .invalid(problem)
        case .value(let value): return value
        }
    }

    /// As ``required(_:)``, and nil when absent.
    func optional(_ name: String) throws(FieldError) -> Value? {
        if case .absent = self { return nil }
        return try required(name)
    }
}

/// Why a request with this field is refused.
enum FieldError: Error {
    /// The connection is closed.
    case malformed(MalformedMessage)
    /// The reply has an error status.
    case invalid(InvalidData)
}

/// The names of members that the protocol uses.
enum Member {
    case t, d, r, a, b, p, q, f, h, ch, cv, cred, noauth, authvar
    case other

    /// A name of one letter.
    init(letter: UInt8) {
        switch letter {
        case UInt8(ascii: "t"): self = .t
        case UInt8(ascii: "d"): self = .d
        case UInt8(ascii: "r"): self = .r
        case UInt8(ascii: "a"): self = .a
        case UInt8(ascii: "b"): self = .b
        case UInt8(ascii: "p"): self = .p
        case UInt8(ascii: "q"): self = .q
        case UInt8(ascii: "f"): self = .f
        case UInt8(ascii: "h"): self = .h
        default: self = .other
        }
    }

    init(_ name: Text) {
        switch name {
        case "ch": self = .ch
        case "cv": self = .cv
        case "cred": self = .cred
        case "noauth": self = .noauth
        case "authvar": self = .authvar
        default: self = name.utf8Count == 1 ? Member(letter: name.firstByte ?? 0) : .other
        }
    }
}

extension MessageParser {
    /// The next byte that is not white space; it is not consumed.
    mutating func peek() -> UInt8 { drafts.reader.peek() }

    /// The offset of the next value's first byte.
    mutating func startOfValue() -> Int {
        _ = peek()
        return offset
    }

    /// Reads `{`, and calls `member` after each name and its colon; `member` must consume the value.
    mutating func readObject(
        _ member: (inout MessageParser, Member) throws(MalformedJSON) -> Void
    ) throws(MalformedJSON) {
        try drafts.reader.expect(UInt8(ascii: "{"))
        if drafts.reader.consume(UInt8(ascii: "}")) { return }
        repeat {
            let name = try readMember()
            try member(&self, name)
        } while drafts.reader.consume(UInt8(ascii: ","))
        try drafts.reader.expect(UInt8(ascii: "}"))
    }

    private mutating func readMember() throws(MalformedJSON) -> Member {
        let letter = readLetter()
        let name = if let letter { Member(letter: letter) } else { Member(try drafts.reader.readString()) }
        try drafts.reader.expect(UInt8(ascii: ":"))
        return name
    }

    /// Reads a string of one ASCII letter: most names and actions.
    /// - Returns: nil for any other value, which is not consumed.
    mutating func readLetter() -> UInt8? {
        let quote = UInt8(ascii: "\"")
        guard peek() == quote, drafts.reader.cursor.peek(2) == quote else { return nil }
        let letter = drafts.reader.cursor.peek(1)
        guard letter | 0x20 >= UInt8(ascii: "a"), letter | 0x20 <= UInt8(ascii: "z") else { return nil }
        drafts.reader.cursor.advance(3)
        return letter
    }

    /// Checks a value and skips it. Allows deeper nesting than the functions that may read it again, so that
    /// the result does not depend on the order of members.
    mutating func skip() throws(MalformedJSON) {
        _ = try drafts.reader.skipValue(depth: -8)
    }

    /// Calls `read`.
    /// - Returns: Its value, or the invalid data that it has noted. What was noted before is dropped.
    mutating func field<Value>(
        _ read: (inout MessageParser) throws(MalformedJSON) -> Value
    ) throws(MalformedJSON) -> Field<Value> {
        drafts.reader.invalidData = nil
        let value = try read(&self)
        if let problem = drafts.reader.invalidData { return .invalid(problem) }
        return .value(value)
    }

    mutating func readText() throws(MalformedJSON) -> Field<Text> {
        guard peek() == UInt8(ascii: "\"") else {
            try skip()
            return .wrongType
        }
        return try field { (parser) throws(MalformedJSON) in try parser.drafts.reader.readString() }
    }

    mutating func readBoolean() throws(MalformedJSON) -> Field<Bool> {
        switch peek() {
        case UInt8(ascii: "t"):
            try drafts.reader.expect(literal: "true")
            return .value(true)
        case UInt8(ascii: "f"):
            try drafts.reader.expect(literal: "false")
            return .value(false)
        default:
            try skip()
            return .wrongType
        }
    }

    mutating func readInteger() throws(MalformedJSON) -> Field<Int64> {
        switch peek() {
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
            let number = try field { (parser) throws(MalformedJSON) in try parser.drafts.reader.readNumber() }
            if case .value(.integer(let value)) = number { return .value(value) }
            return .wrongType
        default:
            try skip()
            return .wrongType
        }
    }

    mutating func readDraft() throws(MalformedJSON) -> Field<Draft> {
        try field { (parser) throws(MalformedJSON) in try parser.drafts.readDraft() }
    }
}
