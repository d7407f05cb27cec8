import PandoBytes

//  The whole state after one record of the journal, in one file named
//  checkpoint-TIMELINE-SEQUENCE.chk  (8 and 16 hex digits). Integers are little-endian throughout.
//
//  header     ┌────────────┬─────────┬───────────┬──────────┬──────────┬───────────┬──────────┬────────┐
//             │ "PNDOCHK1" │ version │ directory │ timeline │ sequence │ timestamp │  flags   │ crc32c │
//             │     8      │    4    │    16     │    4     │    8     │  8 (ms)   │    4     │   4    │   = 56 bytes
//             └────────────┴─────────┴───────────┴──────────┴──────────┴───────────┴──────────┴────────┘
//             └────────────────────── crc32c covers everything before itself ─────────────┘   this header is the same in every version
//
//  block      ┌────────┬────────┬─────────────┬──────────┐   length counts the bytes of the records
//             │ crc32c │ length │ firstRecord │ records… │   firstRecord: how many records the blocks before hold
//             │   4    │   4    │      8      │  length  │
//             └────────┴────────┴─────────────┴──────────┘
//                      └── crc32c covers everything after itself; it continues from the header's
//                          crc32c, so the block of another checkpoint does not pass
//
//  record     ┌────────┬──────┬──────────┬───────────┬──────────┐
//             │ length │ kind │ reserved │ namespace │ payload… │   kinds and payloads as in the journal; every record has
//             │   4    │  2   │  2 (0)   │     4     │  length  │   the sequence and the timestamp of the header
//             └────────┴──────┴──────────┴───────────┴──────────┘
//
//  end mark   a block of length 0; its firstRecord is the number of records. Nothing follows.
//
//  flags      1: the journal begins here, with the result of an import or a restore.
//             * No record has this checkpoint's sequence: the result is in no journal, only in here.
//             * The first segment behind it begins with the next sequence; a start that finds no such segment makes
//               it. So an import or a restore takes effect as a whole, with the rename that gives its checkpoint
//               its name.
//             * A restore begins a new timeline: its checkpoint alone replaces every file of older timelines, which
//               the next start removes. That follows from the names of the files alone.
//             * The earlier journal must not be used without this checkpoint: when it is damaged, or the disk cannot
//               read it, the start refuses, and does not fall back.
//
//  Without flag 1, `sequence` is the last record whose effects are in here, always the last of its entry. The
//  caller orders its records: for each namespace its creation (except the standard one's), rules, settings,
//  parts of its tree (each at most a mebibyte, unless one string is longer), and pending onDisconnect writes;
//  at the end, if the namespace with the highest number was deleted, its deletion, so that the number is
//  not used again.
//
//  The file is written under another name (… .chk.new), synced, renamed, and the directory synced; only then
//  may anything depend on it. So a checkpoint that has its name and is not complete was damaged: reading
//  reports where, and recovery uses the one before. Nothing is removed before its successor is durable: two
//  checkpoints and every segment since the older one are kept, so that the fall-back finds its journal.

/// The numbers of a checkpoint's layout, version 1.
package enum CheckpointFormat {
    /// "PNDOCHK1" as a little-endian word.
    static let magic: UInt64 = 0x314B_4843_4F44_4E50
    package static let version: UInt32 = 1
    package static let headerByteCount = 56
    static let blockHeaderByteCount = 16
    static let recordHeaderByteCount = 12
    /// The size at which a block is full.
    static let blockByteCount = 1 << 20
    /// The largest block: the largest record in a block that was nearly full.
    static let blockByteLimit = JournalFormat.payloadByteLimit + 2 * blockByteCount
    /// A suffix for the name of a damaged checkpoint, so that the next start ignores it.
    static let damagedSuffix = ".damaged"
}

/// The header of a checkpoint.
package struct CheckpointHeader: Equatable, Sendable {
    package let directory: DirectoryID
    package let timeline: UInt32
    /// The last record whose effects are in the checkpoint.
    package let sequence: SequenceNumber
    /// The time of that record, or later; milliseconds since 1970.
    package let timestamp: Int64
    /// The journal begins behind this checkpoint, and no record has its sequence.
    package let beginsJournal: Bool

    package init(
        directory: DirectoryID, timeline: UInt32, sequence: SequenceNumber, timestamp: Int64,
        beginsJournal: Bool = false
    ) {
        self.beginsJournal = beginsJournal
        self.directory = directory
        self.timeline = timeline
        self.sequence = sequence
        self.timestamp = timestamp
    }

    package var name: CheckpointName { CheckpointName(timeline: timeline, sequence: sequence) }

    private static let beginsJournalFlag: UInt32 = 1

    /// The 56 bytes.
    package var bytes: [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(littleEndian: CheckpointFormat.magic)
        bytes.append(littleEndian: CheckpointFormat.version)
        bytes.append(littleEndian: directory.first)
        bytes.append(littleEndian: directory.second)
        bytes.append(littleEndian: timeline)
        bytes.append(littleEndian: sequence.rawValue)
        bytes.append(littleEndian: timestamp)
        bytes.append(littleEndian: beginsJournal ? Self.beginsJournalFlag : 0)
        bytes.append(littleEndian: crc32c(bytes.rawSpan, continuing: 0))
        return bytes
    }

    /// The checksum of the header, from which the checksum of each block continues.
    var seed: UInt32 { crc32c(bytes.rawSpan.extracting(0..<52), continuing: 0) }

    /// Reads 56 bytes.
    /// - Returns: The header, or why the bytes are none.
    static func read(_ bytes: RawSpan) -> Result<CheckpointHeader, JournalFlaw> {
        guard bytes.byteCount == CheckpointFormat.headerByteCount else {
            return .failure(.checkpointUnfinished)
        }
        guard bytes.littleEndian(at: 0, as: UInt64.self) == CheckpointFormat.magic else {
            return .failure(.notACheckpoint)
        }
        guard bytes.littleEndian(at: 52, as: UInt32.self) == crc32c(bytes.extracting(0..<52), continuing: 0)
        else { return .failure(.checkpointHeaderDamaged) }
        // The checksum first: from damage recovery can fall back to the checkpoint before, from a newer
        // version it must not.
        let version = bytes.littleEndian(at: 8, as: UInt32.self)
        let flags = bytes.littleEndian(at: 48, as: UInt32.self)
        guard version == CheckpointFormat.version, flags & ~beginsJournalFlag == 0 else {
            return .failure(.unsupportedVersion(version))
        }
        let header = CheckpointHeader(
            directory: DirectoryID(
                bytes.littleEndian(at: 12, as: UInt64.self), bytes.littleEndian(at: 20, as: UInt64.self)),
            timeline: bytes.littleEndian(at: 28, as: UInt32.self),
            sequence: SequenceNumber(bytes.littleEndian(at: 32, as: UInt64.self)),
            timestamp: bytes.littleEndian(at: 40, as: Int64.self),
            beginsJournal: flags & beginsJournalFlag != 0)
        guard header.sequence.rawValue < JournalFormat.firstSequenceLimit else {
            return .failure(.impossibleCheckpoint(header.sequence))
        }
        return .success(header)
    }
}
