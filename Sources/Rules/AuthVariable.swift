import PandoBytes
import PandoTree

/// A value inside the `auth` variable: claims keep their JSON types (auth §3).
enum Claim: Sendable {
    case null
    case boolean(Bool)
    case number(Double)
    case string(Text)
    case object(ClaimObject)
}

/// An object of claims, by name; an array, by index.
final class ClaimObject: Sendable {
    let members: [Text: Claim]

    init(_ members: [Text: Claim]) {
        self.members = members
    }
}

extension Claim {
    /// The member of that name; null for whatever has none.
    subscript(name: Text) -> Claim {
        if case .object(let object) = self { object.members[name] ?? .null } else { .null }
    }

    /// The value for expressions.
    var value: RuleValue {
        switch self {
        case .null: .null
        case .boolean(let value): .boolean(value)
        case .number(let value): .number(value)
        case .string(let text): .string(text)
        case .object: .object
        }
    }
}

/// The `auth` variable, parsed once for each credential instead of once for each rule.
///
/// Text that cannot be parsed (no JSON, a repeated name, nesting deeper than ``depth``) is an object without
/// members: the user is signed in, and has no claims.
final class AuthVariable: Sendable {
    let root: Claim
    /// `auth.uid`, which nearly every rule reads.
    let uid: Claim
    /// `auth.uid` as a key; nil when it is no string, or no legal key.
    let uidKey: Key?

    /// The nesting of arrays and objects, far more than issuers use. It bounds the recursion of parsing and
    /// freeing.
    static let depth = 64

    /// - Parameter json: As in ``Credential/authVariable``.
    /// - Complexity: O(bytes).
    init(json: Text) {
        let bytes = Array(json.string.utf8)
        root = (try? Self.read(bytes)) ?? .object(ClaimObject([:]))
        uid = root["uid"]
        if case .string(let text) = uid, Key.isLegal(text) {
            uidKey = Key(unchecked: text)
        } else {
            uidKey = nil
        }
    }

    private struct Unreadable: Error {}

    private static func read(_ bytes: [UInt8]) throws -> Claim {
        try withCursor(over: bytes.rawSpan) { (cursor) throws -> Claim in
            var reader = JSONReader(cursor)
            let claim = try read(&reader, depth: 0)
            try reader.expectEnd()
            guard reader.invalidData == nil else { throw Unreadable() }
            return claim
        }
    }

    private static func read(_ reader: inout JSONReader, depth: Int) throws -> Claim {
        guard depth <= Self.depth else { throw Unreadable() }
        switch reader.peek() {
        case UInt8(ascii: "{"):
            reader.cursor.advance()
            var members: [Text: Claim] = [:]
            if reader.consume(UInt8(ascii: "}")) { return .object(ClaimObject(members)) }
            repeat {
                _ = reader.peek()
                let name = try reader.readString()
                try reader.expect(UInt8(ascii: ":"))
                let claim = try read(&reader, depth: depth + 1)
                guard members.updateValue(claim, forKey: name) == nil else { throw Unreadable() }
            } while reader.consume(UInt8(ascii: ","))
            try reader.expect(UInt8(ascii: "}"))
            return .object(ClaimObject(members))
        case UInt8(ascii: "["):
            reader.cursor.advance()
            var members: [Text: Claim] = [:]
            if reader.consume(UInt8(ascii: "]")) { return .object(ClaimObject(members)) }
            repeat {
                members[Text(String(members.count))] = try read(&reader, depth: depth + 1)
            } while reader.consume(UInt8(ascii: ","))
            try reader.expect(UInt8(ascii: "]"))
            return .object(ClaimObject(members))
        default:
            switch try reader.readLeaf() {
            case .boolean(let value): return .boolean(value)
            case .integer(let value): return .number(Double(value))
            case .double(let value): return .number(value)
            case .string(let text): return .string(text)
            case .empty, .object, .prioritized: return .null
            }
        }
    }
}
