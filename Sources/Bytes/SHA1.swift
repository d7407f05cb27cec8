import COpenSSL

/// An incremental SHA-1 (FIPS 180-4) by libcrypto, which uses the processor's SHA instructions if it has
/// them. Allocates nothing. For node hashes and WebSocket handshakes, whose protocols demand it; not for
/// secrets.
package struct SHA1 {
    private var context = pando_sha1()

    package init() {
        unsafe pando_sha1_begin(&context)
    }

    /// Hashes the next bytes. O(bytes).
    package mutating func update(_ bytes: RawSpan) {
        unsafe bytes.withUnsafeBytes { buffer in
            unsafe pando_sha1_update(&context, buffer.baseAddress, buffer.count)
        }
    }

    /// The digest: 20 bytes. The hash must not be used afterwards.
    package mutating func finish() -> [UInt8] {
        unsafe [UInt8](unsafeUninitializedCapacity: Int(PANDO_SHA1_BYTE_COUNT)) { buffer, count in
            // 20 bytes of capacity: just asked for.
            if let start = buffer.baseAddress { unsafe pando_sha1_finish(&context, start) }
            count = Int(PANDO_SHA1_BYTE_COUNT)
        }
    }

    /// Appends the Base64 of the digest: 28 ASCII characters. The hash must not be used afterwards.
    package mutating func finish(appendingBase64To output: inout [UInt8]) {
        var digest = InlineArray<20, UInt8>(repeating: 0)
        var bytes = digest.mutableSpan
        unsafe bytes.withUnsafeMutableBufferPointer { buffer in
            // 20 bytes: the array's own count.
            if let start = buffer.baseAddress { unsafe pando_sha1_finish(&context, start) }
        }
        // `UInt8` has no padding: every byte of the span is initialised.
        output.append(base64: unsafe digest.span.bytes)
    }

    /// The Base64 of the digest of `bytes`: 28 ASCII characters.
    package static func base64(of bytes: RawSpan) -> String {
        var hash = SHA1()
        hash.update(bytes)
        var text: [UInt8] = []
        text.reserveCapacity(28)
        text.append(base64: hash.finish().rawSpan)
        return String(decoding: text, as: UTF8.self)
    }
}
