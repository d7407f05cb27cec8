import PandoBytes

/// A secret that this server shares with backends. It signs their tokens (HS256), and is a credential itself
/// where that is allowed (auth §5).
package struct Secret: Sendable {
    /// How a secret is encoded as text.
    package enum Encoding: String, Sendable, CaseIterable {
        case hex, base64, raw
    }

    /// The shortest secret in bytes: the length of an HS256 code (RFC 7518 §3.2).
    package static let byteMinimum = 32

    /// `kid`; nil for a secret that is tried with tokens of any `kid`.
    let id: Text?
    let bytes: [UInt8]
    /// The text as it was given, without white space around it: the credential itself.
    private let text: [UInt8]

    /// - Parameters:
    ///   - written: The content of a file or a variable. White space around it is ignored.
    ///   - encoding: Nil tries hex, then Base64 of either alphabet. Text that is neither, or that decodes to
    ///     less than 32 bytes, is raw: as in Firebase, a database secret of 40 letters is raw.
    /// - Throws: ``UnreadableKeys`` with the reason, which does not quote the secret.
    package init(written: [UInt8], encoding: Encoding?, id: Text?) throws(UnreadableKeys) {
        func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }
        let text = Array(written.drop(while: isSpace).reversed().drop(while: isSpace).reversed())
        let decoded: [UInt8]?
        switch encoding {
        case .hex: decoded = Self.decodeHex(text)
        case .base64: decoded = Self.decodeBase64(text)
        case .raw: decoded = text
        case nil:
            let candidates = [Self.decodeHex(text), Self.decodeBase64(text), text]
            decoded = candidates.lazy.compactMap { $0 }.first { $0.count >= Self.byteMinimum } ?? text
        }
        guard let decoded else {
            throw UnreadableKeys(description: "is not valid \(encoding?.rawValue ?? "text")")
        }
        guard decoded.count >= Self.byteMinimum else {
            throw UnreadableKeys(
                description:
                    "holds \(decoded.count) bytes; a secret has at least \(Self.byteMinimum) random ones")
        }
        self.id = id
        self.text = text
        bytes = decoded
    }

    private static func decodeHex(_ text: [UInt8]) -> [UInt8]? {
        guard text.count % 2 == 0 else { return nil }
        let digits = text.compactMap {
            Character(Unicode.Scalar($0)).hexDigitValue.flatMap(UInt8.init(exactly:))
        }
        guard digits.count == text.count else { return nil }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }

    private static func decodeBase64(_ text: [UInt8]) -> [UInt8]? {
        PandoBytes.decodeBase64(text.rawSpan, alphabet: .standard)
            ?? PandoBytes.decodeBase64(text.rawSpan, alphabet: .urlSafe)
    }

    /// The key, and what is needed to recognize the secret as a credential.
    func loaded() async throws -> LoadedSecret {
        let key = try await VerificationKey(secret: bytes, id: id)
        return LoadedSecret(key: key, codeOfText: key.authenticationCode(of: text) ?? [])
    }
}

/// Printing a secret prints only its length.
extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "Secret(\(bytes.count) bytes)" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

struct LoadedSecret: Sendable {
    let key: VerificationKey
    /// The HMAC of the secret's text. Comparing codes takes the same time for every text, and the secret need
    /// not be stored.
    let codeOfText: [UInt8]

    /// Whether a credential is the secret itself. In constant time.
    func isEqual(to token: Text) -> Bool {
        key.verifies(codeOfText, of: Array(token.string.utf8))
    }
}
