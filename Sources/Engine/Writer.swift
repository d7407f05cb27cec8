import PandoBytes
import PandoRules

/// Who wrote a change, as the journal keeps it.
package enum Writer: Hashable, Sendable {
    /// Signed out.
    case anonymous
    case administrator
    /// A user, by `auth.uid`: at most ``uidByteLimit`` bytes, where a longer one is cut.
    case user(Text)
    /// Signed in without an `auth.uid` that is a string of at least one byte.
    case withoutUID

    /// The longest uid of a token has 256 characters (auth §2.3), of at most 3 bytes for each UTF-16 unit.
    /// Only an administrator's `auth_variable_override` can have a longer one.
    package static let uidByteLimit = 256 * 3

    /// O(bytes of the uid).
    package init(_ credential: Credential) {
        if credential.isAdmin {
            self = .administrator
        } else if credential.authVariable == nil {
            self = .anonymous
        } else if let uid = credential.uid, uid.utf8Count > 0 {
            self = .user(uid.prefix(byteCount: Self.uidByteLimit))
        } else {
            self = .withoutUID
        }
    }
}

/// The writer of a record, and how it came to the write.
package struct Authorship: Hashable, Sendable {
    package var writer: Writer
    /// An onDisconnect write: the writer has queued it, and the end of its session has done it.
    package var isOnDisconnect: Bool

    package init(_ writer: Writer, isOnDisconnect: Bool) {
        self.writer = writer
        self.isOnDisconnect = isOnDisconnect
    }
}

extension Authorship: CustomStringConvertible {
    /// For a line of text: `user ann, onDisconnect`. Control characters of a uid are shown as spaces.
    package var description: String {
        let name =
            switch writer {
            case .anonymous: "anonymous"
            case .administrator: "administrator"
            case .withoutUID: "user without uid"
            case .user(let uid):
                "user "
                    + String(
                        String.UnicodeScalarView(
                            uid.string.unicodeScalars.map {
                                $0.properties.generalCategory == .control ? " " : $0
                            }))
            }
        return isOnDisconnect ? name + ", onDisconnect" : name
    }
}

/// The changes of a session's end up to one of them, after those of the run before: the same client has
/// queued all of them.
package struct AuthoredRun: Sendable {
    /// The index after the last change of the run.
    package var end: Int
    package var credential: Credential
}

// The writer of a record:
//
//  writer      0 anonymous | 1 administrator | 2 length (varint), uid | 3 without uid;  + 4 for an onDisconnect write

private enum WriterTag {
    static let anonymous: UInt8 = 0
    static let administrator: UInt8 = 1
    static let user: UInt8 = 2
    static let withoutUID: UInt8 = 3
    static let onDisconnectFlag: UInt8 = 4
}

extension [UInt8] {
    /// Appends whose write it is: one byte, and for a user its uid and one or two bytes more. No allocation
    /// beside the growth of the array.
    mutating func append(writer credential: borrowing Credential, isOnDisconnect: Bool) {
        let flag = isOnDisconnect ? WriterTag.onDisconnectFlag : 0
        guard !credential.isAdmin else { return append(WriterTag.administrator | flag) }
        guard credential.authVariable != nil else { return append(WriterTag.anonymous | flag) }
        guard let uid = credential.uid, uid.utf8Count > 0 else { return append(WriterTag.withoutUID | flag) }
        append(WriterTag.user | flag)
        append(counted: uid.prefix(byteCount: Writer.uidByteLimit))
    }
}

extension ByteCursor {
    /// Reads what ``append(writer:isOnDisconnect:)`` has appended.
    /// - Throws: For bytes that it does not append.
    mutating func readAuthorship() throws(UnreadableRecord) -> Authorship {
        let tag = try readByte()
        let isOnDisconnect = tag & WriterTag.onDisconnectFlag != 0
        switch tag & ~WriterTag.onDisconnectFlag {
        case WriterTag.anonymous: return Authorship(.anonymous, isOnDisconnect: isOnDisconnect)
        case WriterTag.administrator: return Authorship(.administrator, isOnDisconnect: isOnDisconnect)
        case WriterTag.withoutUID: return Authorship(.withoutUID, isOnDisconnect: isOnDisconnect)
        case WriterTag.user:
            guard let range = try? readCounted(), !range.isEmpty, range.count <= Writer.uidByteLimit else {
                throw UnreadableRecord(reason: "no uid before byte \(offset)")
            }
            return Authorship(.user(Text(string(range))), isOnDisconnect: isOnDisconnect)
        default: throw UnreadableRecord(reason: "unknown writer \(tag) before byte \(offset)")
        }
    }
}
