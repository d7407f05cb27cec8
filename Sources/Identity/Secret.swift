import PandoBytes

/// A secret that this server shares with backends: it signs their tokens (HS256), and is itself a credential
/// where that is allowed (auth §5).
package struct Secret: Sendable {
    /// How the bytes of a secret are written down.
    package enum Encoding: String, Sendable, CaseIterable {
        case hex, base64, raw
    }

    /// Bytes: as many as HS256 has (RFC 7518 §3.2).
    package static let byteMinimum = 32

    /// `kid`; nil fits tokens of any.
    let id: Text?
    let bytes: [UInt8]
    /// As it was written, without white space around it; what is shown as a credential.
    private let text: [UInt8]

    /// - Parameters:
    ///   - written: What a file or a variable holds. White space around it does not count.
    ///   - encoding: Nil tries hex, then Base64 of either alphabet, and takes for raw what is neither, or is
    ///     below 32 bytes when decoded: a database secret of 40 letters is raw, as it is in Firebase.
    /// - Throws: Why it is none, without quoting it.
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
            throw UnreadableKeys(description: "is not \(encoding?.rawValue ?? "readable")")
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

    /// The key to verify with, and what tells the secret itself.
    func loaded() async throws -> LoadedSecret {
        let key = try await VerificationKey(secret: bytes, id: id)
        return LoadedSecret(key: key, codeOfText: key.authenticationCode(of: text) ?? [])
    }
}

/// Whoever prints a secret does not print the secret.
extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "Secret(\(bytes.count) bytes)" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

struct LoadedSecret: Sendable {
    let key: VerificationKey
    /// The HMAC of the secret as it is written. Comparing codes takes the same time whatever is shown, and
    /// the secret need not be kept.
    let codeOfText: [UInt8]

    /// Whether somebody shows the secret itself.
    func isShown(as token: Text) -> Bool {
        key.verifies(codeOfText, of: Array(token.string.utf8))
    }
}
