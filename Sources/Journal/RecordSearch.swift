import PandoBytes

/// Finds a good record at any multiple of 8 in bytes that may be anything, in one pass over them.
///
/// Every place whose 40 bytes could be a wanted header is a candidate, and each would need the checksum of
/// its whole payload: on bytes made for the purpose, quadratic work. But a checksum is linear: from the
/// checksum of everything up to the candidate, one can tell what the checksum of everything up to the
/// record's *end* must be if the record is good. So each candidate leaves that prophecy at its end, and one
/// running checksum fulfils it or not. O(n) for the pass, O(log n) for each candidate.
struct RecordSearch {
    enum Answer {
        case none
        case found(RecordHeader, byteOffset: Int)
        /// More candidates at once than we keep in mind: nobody's log looks like this by accident.
        case tooTangled
    }

    /// Candidates whose end was not reached yet. 2^16 of them take some 8 MB.
    static let candidateLimit = 1 << 16

    private struct Candidate {
        let header: RecordHeader
        let byteOffset: Int
        /// The running checksum at the record's end, if the record is good.
        let prophecy: UInt32
    }

    private let seed: UInt32
    private var candidates: [Int: [Candidate]] = [:]
    private var candidateCount = 0

    init(seed: UInt32) { self.seed = seed }

    /// - Parameter start: A multiple of 8.
    /// - Complexity: One read of the rest of the file, or up to the end of the first record found.
    mutating func run<Storage: Disk>(
        in window: inout FileWindow<Storage>, from start: Int,
        where isWanted: (RecordHeader, _ byteOffset: Int) -> Bool
    ) throws(DiskFailure) -> Answer {
        let headerByteCount = JournalFormat.recordHeaderByteCount
        let fileEnd = window.fileByteCount
        var base = start
        /// The checksum of everything from `start` up to `base`.
        var running: UInt32 = 0
        while base < fileEnd {
            let end = min(base + FileWindow<Storage>.usualByteCount, fileEnd)
            try window.load(base..<end)
            let bytes = window.bytes(base..<end)
            /// How much of `bytes` is in `running`.
            var summed = 0
            var position = 0
            while position <= bytes.byteCount {
                if !candidates.isEmpty, let due = candidates.removeValue(forKey: base + position) {
                    running = crc32c(bytes.extracting(summed..<position), continuing: running)
                    summed = position
                    candidateCount -= due.count
                    if let good = due.first(where: { $0.prophecy == running }) {
                        return .found(good.header, byteOffset: good.byteOffset)
                    }
                }
                if bytes.byteCount - position < headerByteCount {
                    // The header may go on in the next window; at the file's end, only ends are left to meet.
                    if end < fileEnd { break }
                } else if let header = plausibleHeader(bytes, at: position, space: fileEnd - base - position),
                    isWanted(header, base + position)
                {
                    if candidateCount == Self.candidateLimit { return .tooTangled }
                    running = crc32c(bytes.extracting(summed..<position), continuing: running)
                    summed = position
                    let first = crc32c(bytes.extracting(position..<position + 4), continuing: running)
                    let rest = header.recordByteCount - 4
                    let prophecy = header.checksum ^ CRC32C.shift(seed ^ first, zeroByteCount: rest)
                    candidates[base + position + header.recordByteCount, default: []].append(
                        Candidate(header: header, byteOffset: base + position, prophecy: prophecy))
                    candidateCount += 1
                }
                position += JournalFormat.alignment
            }
            if end == fileEnd { return .none }
            running = crc32c(bytes.extracting(summed..<position), continuing: running)
            base += position
        }
        return .none
    }

    /// The header at `position`, if it could be one at all; cheapest test first.
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
