import PandoBytes
import PandoJournal

/// A digest of everything that a data directory holds: of the records that make its state, in their order.
/// Two states are equal if their digests are. (It detects mistakes; it is no proof against an attacker.)
package struct SnapshotDigest {
    private var hash = SHA1()
    package private(set) var recordCount = 0

    package init() {}

    /// The digest of a state, as 40 hexadecimal digits. O(bytes of the state).
    package static func text(of state: RecoveredState) -> String {
        var digest = SnapshotDigest()
        state.forEachRecord { digest.add($0, namespace: $1, payload: $2) }
        return digest.finish()
    }

    package mutating func add(_ kind: RecordKind, namespace: UInt32, payload: [UInt8]) {
        var head: [UInt8] = []
        head.append(littleEndian: kind.rawValue)
        head.append(littleEndian: namespace)
        head.append(littleEndian: UInt64(payload.count))
        hash.update(head.rawSpan)
        hash.update(payload.rawSpan)
        recordCount += 1
    }

    /// 40 hexadecimal digits. The digest must not be used afterwards.
    package mutating func finish() -> String {
        hash.finish().map { byte in
            let digits = String(byte, radix: 16)
            return digits.utf8.count < 2 ? "0" + digits : digits
        }.joined()
    }
}
