import COpenSSL

/// The SHA-256 (FIPS 180-4) of some bytes, by libcrypto. Used in place of values that are secret or too long
/// to keep. Allocates nothing.
package struct SHA256Digest: Hashable, Sendable {
    private let words: (UInt64, UInt64, UInt64, UInt64)

    /// Hashes bytes. O(bytes).
    package init(of bytes: RawSpan) {
        var digest = InlineArray<32, UInt8>(repeating: 0)
        var span = digest.mutableSpan
        unsafe span.withUnsafeMutableBufferPointer { buffer in
            unsafe bytes.withUnsafeBytes { bytes in
                // 32 bytes: the array's own count.
                if let start = buffer.baseAddress {
                    unsafe pando_sha256(bytes.baseAddress, bytes.count, start)
                }
            }
        }
        func word(_ index: Int) -> UInt64 {
            (0..<8).reduce(0) { $0 << 8 | UInt64(digest[8 * index + $1]) }
        }
        words = (word(0), word(1), word(2), word(3))
    }

    /// Hashes the text's UTF-8. O(bytes).
    package init(of text: Text) {
        // `UInt8` has no padding: every byte of the span is initialised.
        self = text.withBytes { unsafe SHA256Digest(of: $0.bytes) }
    }

    package static func == (left: SHA256Digest, right: SHA256Digest) -> Bool {
        left.words == right.words
    }

    package func hash(into hasher: inout Hasher) {
        // Any 64 bits of a digest are distributed evenly.
        hasher.combine(words.0)
    }
}

extension SHA256Digest: CustomStringConvertible {
    package var description: String {
        [words.0, words.1, words.2, words.3].map { word in
            let digits = String(word, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }
}
