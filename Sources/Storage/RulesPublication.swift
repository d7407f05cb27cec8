import PandoBytes
import PandoEngine
import PandoJournal
import PandoTree

/// Rules that were put in force by a request, and whose token it had: the payload of a record of the journal.
///
///     uid (counted) | key id (counted) | source of the rules, to the end of the payload
///
/// Both are empty where they are not known: the owner token of `--dev`, and a client certificate, have
/// neither.
package struct RulesPublication: Equatable, Sendable {
    /// The subject of the token. An administrator's may have none.
    package var uid: String
    /// The id of the key or secret that has signed the token, or that was given in place of one.
    package var keyID: String
    package var source: [UInt8]

    /// Bytes of a uid, and of a key's id, that are kept; more are cut off. As of the writers of data.
    package static let nameByteLimit = Writer.uidByteLimit

    package init(uid: String, keyID: String, source: [UInt8]) {
        self.uid = uid
        self.keyID = keyID
        self.source = source
    }

    /// The payload. O(bytes).
    package var payload: [UInt8] {
        var bytes: [UInt8] = []
        for name in [uid, keyID] {
            let kept = name.prefix(byteCount: Self.nameByteLimit).utf8
            bytes.append(varint: UInt64(kept.count))
            bytes += kept
        }
        return bytes + source
    }

    /// Reads ``payload``. A name that an earlier version has cut inside a character ends with U+FFFD.
    /// - Throws: ``UnreadableRecord`` for other bytes.
    package init(reading payload: RawSpan) throws(UnreadableRecord) {
        let read: RulesPublication? = withCursor(over: payload) { cursor in
            guard let uid = try? cursor.readCounted(), let keyID = try? cursor.readCounted() else {
                return nil
            }
            return RulesPublication(
                uid: cursor.string(uid), keyID: cursor.string(keyID),
                source: cursor.array(cursor.offset..<cursor.count))
        }
        guard let read else { throw UnreadableRecord(reason: "no publisher of the rules") }
        self = read
    }
}
