import COperatingSystem
import PandoBytes

//  One journal per data directory, in segments named  journal-TIMELINE-FIRSTSEQUENCE.log  (8 and 16 hex digits).
//  Integers are little-endian throughout.
//
//  segment   ┌────────────┬─────────┬───────────┬──────────┬───────────────┬──────────┬────────┐
//  header    │ "PNDOJRN1" │ version │ directory │ timeline │ firstSequence │ reserved │ crc32c │
//            │     8      │    4    │    16     │    4     │       8       │  4 (0)   │   4    │   = 48 bytes
//            └────────────┴─────────┴───────────┴──────────┴───────────────┴──────────┴────────┘
//            └───────────────────── crc32c covers everything before itself ──────────┘
//
//  record    ┌────────┬────────┬──────┬───────┬───────────┬──────────┬───────────┬─────────┬──────────┬─────────┐
//            │ crc32c │ length │ kind │ flags │ namespace │ sequence │ timestamp │ durable │ payload… │ padding │
//            │   4    │   4    │  2   │   2   │     4     │    8     │  8 (ms)   │    8    │  length  │  to 8   │
//            └────────┴────────┴──────┴───────┴───────────┴──────────┴───────────┴─────────┴──────────┴─────────┘
//                     └── crc32c covers everything after itself, padding included; it continues from the
//                         segment header's crc32c, so a record of another segment, directory or timeline
//                         (or one that a client sent us as a value) is not a record here
//
//  `length` counts payload bytes. Records follow one another without holes, each at a multiple of 8, and
//  their sequences count up by one, across segments too. An *entry* is one or more records, the first with
//  `begin`, the last with `commit` (a lone record has both): it happened as a whole or not at all.
//
//  `durable` is the last sequence known to be on disk when the record was written; it never goes back, and it
//  is always the last record of an entry. A segment exists only after every record before it was synced, and
//  its header is synced under another name (… .log.new) before it gets its own: a segment is never without
//  its header.
//
//  A segment may be longer than its records: it was prepared as journal-prepared.log.new, full of zeros, so
//  that a sync needs no new blocks (PreparedSegment). If only zeros follow where an entry would begin in the
//  last segment, the journal ends there, as it does at the end of the file. A start truncates them. No record
//  is all zeros: its sequence is at least 1.
//
//  Reading stops at the first bad record, which the end of the file cuts short, or whose crc32c is wrong. If
//  a later segment exists, or a good record follows anywhere (all start at multiples of 8) whose `durable`
//  reaches the bad record's entry, then the bad record was on disk before, and is damaged: refuse. Otherwise
//  no evidence says that it was on disk: it counts as torn, and the segment is cut off where its entry
//  begins, with a copy kept (TornTail). Under `--durability always` a tail that a power cut has torn held
//  nothing acknowledged. If the disk has damaged a synced last batch, it looks the same, and acknowledged
//  writes are lost. Good records before it stay. A good record that contradicts its neighbours (sequence,
//  flags, durable) is never the result of a power cut: refuse.

/// The numbers of the journal's layout, version 1.
package enum JournalFormat {
    /// "PNDOJRN1" as a little-endian word.
    static let magic: UInt64 = 0x314E_524A_4F44_4E50
    package static let version: UInt32 = 1
    package static let segmentHeaderByteCount = 48
    package static let recordHeaderByteCount = 40
    static let alignment = 8

    /// The largest payload: a REST write may carry 256 MB (rest §13), and its delta names paths
    /// besides.
    package static let payloadByteLimit = 272 << 20
    /// The largest entry, headers and padding included. Recovery holds one whole entry in memory, so this
    /// bounds it.
    package static let entryByteLimit = 320 << 20

    /// The highest sequence a segment may begin with: half the range, so that counting on can never overflow.
    static let firstSequenceLimit: UInt64 = .max / 2
    /// Behind every sequence.
    static let endOfSequences = SequenceNumber(.max)

    /// Header, payload and padding together.
    package static func recordByteCount(payloadByteCount: Int) -> Int {
        recordHeaderByteCount + payloadByteCount + paddingByteCount(payloadByteCount: payloadByteCount)
    }

    static func paddingByteCount(payloadByteCount: Int) -> Int {
        (alignment - payloadByteCount % alignment) % alignment
    }
}

/// The header of a segment.
package struct SegmentHeader: Equatable, Sendable {
    package let directory: DirectoryID
    package let timeline: UInt32
    package let firstSequence: SequenceNumber

    package init(directory: DirectoryID, timeline: UInt32, firstSequence: SequenceNumber) {
        self.directory = directory
        self.timeline = timeline
        self.firstSequence = firstSequence
    }

    var name: SegmentName { SegmentName(timeline: timeline, firstSequence: firstSequence) }

    /// The 48 bytes.
    package var bytes: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(JournalFormat.segmentHeaderByteCount)
        bytes.append(littleEndian: JournalFormat.magic)
        bytes.append(littleEndian: JournalFormat.version)
        bytes.append(littleEndian: directory.first)
        bytes.append(littleEndian: directory.second)
        bytes.append(littleEndian: timeline)
        bytes.append(littleEndian: firstSequence.rawValue)
        bytes.append(littleEndian: UInt32(0))
        bytes.append(littleEndian: crc32c(bytes.rawSpan, continuing: 0))
        return bytes
    }

    /// The checksum of the header, from which the checksums of the segment's records continue.
    package var seed: UInt32 {
        crc32c(bytes.rawSpan.extracting(0..<44), continuing: 0)
    }

    /// Reads 48 bytes. Magic and version are checked first: the rest of another version's header may be
    /// elsewhere.
    /// - Returns: The header, or why the bytes are none.
    static func read(_ bytes: RawSpan) -> Result<SegmentHeader, JournalFlaw> {
        guard bytes.byteCount == JournalFormat.segmentHeaderByteCount else {
            return .failure(.headerCutShort(byteCount: bytes.byteCount))
        }
        guard bytes.littleEndian(at: 0, as: UInt64.self) == JournalFormat.magic else {
            return .failure(.notASegment)
        }
        let version = bytes.littleEndian(at: 8, as: UInt32.self)
        guard version == JournalFormat.version else { return .failure(.unsupportedVersion(version)) }
        guard bytes.littleEndian(at: 44, as: UInt32.self) == crc32c(bytes.extracting(0..<44), continuing: 0),
            bytes.littleEndian(at: 40, as: UInt32.self) == 0
        else { return .failure(.headerChecksumMismatch) }
        let header = SegmentHeader(
            directory: DirectoryID(
                bytes.littleEndian(at: 12, as: UInt64.self), bytes.littleEndian(at: 20, as: UInt64.self)),
            timeline: bytes.littleEndian(at: 28, as: UInt32.self),
            firstSequence: SequenceNumber(bytes.littleEndian(at: 32, as: UInt64.self))
        )
        guard (1...JournalFormat.firstSequenceLimit).contains(header.firstSequence.rawValue) else {
            return .failure(.impossibleFirstSequence(header.firstSequence))
        }
        return .success(header)
    }
}

/// The header of a record as it is in the file, unchecked.
package struct RecordHeader: Equatable, Sendable {
    package var checksum: UInt32
    package var payloadByteCount: UInt32
    /// A ``RecordKind``, or a number of a newer version.
    package var rawKind: UInt16
    package var flags: RecordFlags
    package var namespace: UInt32
    package var sequence: SequenceNumber
    package var timestamp: Int64
    package var durable: SequenceNumber

    /// Header, payload and padding together.
    var recordByteCount: Int { JournalFormat.recordByteCount(payloadByteCount: Int(payloadByteCount)) }

    // Where the fields lie in the 40 bytes; the checksum lies at 0.
    static let lengthOffset = 4
    static let kindOffset = 8
    static let flagsOffset = 10
    static let sequenceOffset = 16
    static let timestampOffset = 24
    static let durableOffset = 32

    /// Kind, flags and namespace as one word, at ``kindOffset``.
    static func kindWord(_ kind: RecordKind, _ flags: RecordFlags, _ namespace: UInt32) -> UInt64 {
        UInt64(kind.rawValue) | UInt64(flags.rawValue) << 16 | UInt64(namespace) << 32
    }

    /// Reads 40 bytes. Traps outside.
    init(_ bytes: RawSpan, at offset: Int) {
        checksum = bytes.littleEndian(at: offset, as: UInt32.self)
        payloadByteCount = bytes.littleEndian(at: offset + Self.lengthOffset, as: UInt32.self)
        rawKind = bytes.littleEndian(at: offset + Self.kindOffset, as: UInt16.self)
        flags = RecordFlags(
            rawValue: bytes.littleEndian(at: offset + Self.flagsOffset, as: UInt16.self))
        namespace = bytes.littleEndian(at: offset + 12, as: UInt32.self)
        sequence = SequenceNumber(bytes.littleEndian(at: offset + Self.sequenceOffset, as: UInt64.self))
        timestamp = bytes.littleEndian(at: offset + Self.timestampOffset, as: Int64.self)
        durable = SequenceNumber(bytes.littleEndian(at: offset + Self.durableOffset, as: UInt64.self))
    }
}

/// CRC-32C of `bytes`, continuing from the result `seed` of earlier bytes (0 for none).
func crc32c(_ bytes: RawSpan, continuing seed: UInt32) -> UInt32 {
    // The buffer outlives the call, and the function reads `count` bytes and no more.
    unsafe bytes.withUnsafeBytes { unsafe pando_crc32c(seed, $0.baseAddress, $0.count) }
}

extension RawSpan {
    /// The little-endian integer at a byte offset, of any alignment. Traps outside.
    func littleEndian<Integer: FixedWidthInteger & BitwiseCopyable>(at offset: Int, as: Integer.Type)
        -> Integer
    {
        // Checked against the end by the span; every bit pattern is an integer.
        Integer(littleEndian: unsafe unsafeLoadUnaligned(fromByteOffset: offset, as: Integer.self))
    }
}
