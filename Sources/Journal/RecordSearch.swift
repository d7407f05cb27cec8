import PandoBytes

/// Finds a good record at any multiple of 8 in bytes that may be anything, in one pass over them.
///
/// Every offset whose 40 bytes could be a wanted header is a candidate. To compute the checksum of each
/// candidate's payload would be quadratic on bytes that an attacker has chosen. But a checksum is linear:
/// from the checksum of everything before the candidate follows what the checksum of everything up to the
/// *end* of the record must be, if the record is good. So each candidate stores that expected value for its
/// end, and one running checksum is compared with it there. O(n) for the pass, O(log n) for each candidate.
struct RecordSearch {
    enum Outcome {
        case notFound
        case found(RecordHeader, byteOffset: Int)
        /// There were more candidates at a time than ``candidateLimit``: bytes that were chosen for it.
        case gaveUp
    }

    /// The most candidates whose end is not yet reached. 2^16 of them take some 8 MB.
    static let candidateLimit = 1 << 16

    private struct Candidate {
        let header: RecordHeader
        let byteOffset: Int
        /// The running checksum at the record's end, if the record is good.
        let expectedChecksum: UInt32
    }

    private let seed: UInt32
    private var candidates: [Int: [Candidate]] = [:]
    private var candidateCount = 0

    init(seed: UInt32) { self.seed = seed }

    /// Searches from an offset on.
    /// - Parameter start: A multiple of 8.
    /// - Throws: ``DiskFailure``.
    /// - Complexity: One read of the rest of the file, or up to the end of the first record found.
    mutating func search<Storage: Disk>(
        in window: inout FileWindow<Storage>, from start: Int,
        where isWanted: (RecordHeader, _ byteOffset: Int) -> Bool
    ) throws(DiskFailure) -> Outcome {
        let headerByteCount = JournalFormat.recordHeaderByteCount
        let fileEnd = window.fileByteCount
        var base = start
        /// The checksum of everything from `start` up to `base`.
        var running: UInt32 = 0
        while base < fileEnd {
            let end = min(base + FileWindow<Storage>.usualByteCount, fileEnd)
            try window.load(base..<end)
            let bytes = window.bytes(base..<end)
            /// The number of `bytes` that are in `running`.
            var summed = 0
            var position = 0
            while position <= bytes.byteCount {
                if !candidates.isEmpty, let due = candidates.removeValue(forKey: base + position) {
                    running = crc32c(bytes.extracting(summed..<position), continuing: running)
                    summed = position
                    candidateCount -= due.count
                    if let good = due.first(where: { $0.expectedChecksum == running }) {
                        return .found(good.header, byteOffset: good.byteOffset)
                    }
                }
                if bytes.byteCount - position < headerByteCount {
                    // The header may continue in the next window. At the end of the file only ends of
                    // candidates remain.
                    if end < fileEnd { break }
                } else if let header = plausibleHeader(bytes, at: position, space: fileEnd - base - position),
                    isWanted(header, base + position)
                {
                    if candidateCount == Self.candidateLimit { return .gaveUp }
                    running = crc32c(bytes.extracting(summed..<position), continuing: running)
                    summed = position
                    let first = crc32c(bytes.extracting(position..<position + 4), continuing: running)
                    let rest = header.recordByteCount - 4
                    let expected = header.checksum ^ CRC32C.shift(seed ^ first, zeroByteCount: rest)
                    candidates[base + position + header.recordByteCount, default: []].append(
                        Candidate(header: header, byteOffset: base + position, expectedChecksum: expected))
                    candidateCount += 1
                }
                position += JournalFormat.alignment
            }
            if end == fileEnd { return .notFound }
            running = crc32c(bytes.extracting(summed..<position), continuing: running)
            base += position
        }
        return .notFound
    }

    /// The header at `position`; nil if the bytes cannot be one. The cheapest test comes first.
    private func plausibleHeader(_ bytes: RawSpan, at position: Int, space: Int) -> RecordHeader? {
        let sequence = bytes.littleEndian(at: position + 16, as: UInt64.self)
        guard sequence > bytes.littleEndian(at: position + 32, as: UInt64.self) else { return nil }
        let header = RecordHeader(bytes, at: position)
        guard header.payloadByteCount <= JournalFormat.payloadByteLimit, header.recordByteCount <= space,
            RecordKind(rawValue: header.rawKind) != nil
        else { return nil }
        return header
    }
}

/// Arithmetic on CRC-32C values: polynomials over GF(2) modulo the Castagnoli polynomial, the highest power
/// in the lowest bit. (The method is zlib's `crc32_combine`.)
enum CRC32C {
    private static let polynomial: UInt32 = 0x82F6_3B78

    /// x^(2^k) for k in 0…62.
    private static let powers: [UInt32] = {
        var powers: [UInt32] = [1 << 30]
        for index in 0..<62 { powers.append(multiply(powers[index], powers[index])) }
        return powers
    }()

    /// What `value` becomes in a checksum's register while `zeroByteCount` zero bytes pass through it.
    static func shift(_ value: UInt32, zeroByteCount: Int) -> UInt32 {
        precondition(zeroByteCount >= 0)
        var result = value
        var rest = zeroByteCount
        var index = 3  // x^8 for a byte
        while rest > 0 {
            if rest & 1 == 1 { result = multiply(powers[index], result) }
            rest >>= 1
            index += 1
        }
        return result
    }

    private static func multiply(_ left: UInt32, _ right: UInt32) -> UInt32 {
        var product: UInt32 = 0
        var factor = right
        var mask: UInt32 = 1 << 31
        while mask != 0 {
            if left & mask != 0 { product ^= factor }
            factor = factor & 1 == 1 ? (factor >> 1) ^ polynomial : factor >> 1
            mask >>= 1
        }
        return product
    }
}
