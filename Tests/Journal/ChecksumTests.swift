import COperatingSystem
import Testing

/// CRC-32C as this processor computes it: by its instruction where it has one, else by the table.
@Suite struct ChecksumTests {
    @Test(
        arguments: [
            ([], 0, "no bytes"),
            (Array("123456789".utf8), 0xE306_9283, "the check value of CRC-32C"),
            ([UInt8](repeating: 0, count: 32), 0x8A91_36AA, "RFC 3720 B.4: zeros"),
            ([UInt8](repeating: 0xFF, count: 32), 0x62A8_AB43, "RFC 3720 B.4: ones"),
            (Array(0..<32), 0x46DD_794E, "RFC 3720 B.4: rising"),
            (Array((0..<32).reversed()), 0x113F_DB5C, "RFC 3720 B.4: falling"),
        ] as [([UInt8], UInt32, String)])
    func knownVectors(bytes: [UInt8], checksum: UInt32, name: String) {
        #expect(fastCRC32C(bytes[...], continuing: 0) == checksum, "\(name)")
        #expect(slowCRC32C(bytes, continuing: 0) == checksum, "\(name)")
    }

    /// Eight bytes at a time and then one by one: each length of both parts, wherever the bytes begin in a
    /// word.
    @Test func everyLengthAtEveryAlignment() {
        let bytes = (0..<96).map { UInt8(truncatingIfNeeded: $0 &* 151 &+ 41) }
        for start in 0..<8 {
            for count in 0...80 {
                let part = bytes[start..<start + count]
                let seed = UInt32(truncatingIfNeeded: start &* 0x9E37_79B9 &+ count &* 0x85EB_CA6B)
                #expect(
                    fastCRC32C(part, continuing: seed) == slowCRC32C(part, continuing: seed),
                    "\(count) bytes from \(start)")
            }
        }
    }

    @Test func twoPartsAreTheWhole() {
        let bytes = (0..<64).map { UInt8(truncatingIfNeeded: $0 &* 73 &+ 5) }
        let whole = fastCRC32C(bytes[...], continuing: 0)
        for cut in 0...bytes.count {
            let first = fastCRC32C(bytes[..<cut], continuing: 0)
            #expect(fastCRC32C(bytes[cut...], continuing: first) == whole, "cut at \(cut)")
        }
    }
}

private func fastCRC32C(_ bytes: ArraySlice<UInt8>, continuing seed: UInt32) -> UInt32 {
    // The buffer outlives the call, and the function reads `count` bytes and no more.
    unsafe bytes.withUnsafeBytes { unsafe pando_crc32c(seed, $0.baseAddress, $0.count) }
}
