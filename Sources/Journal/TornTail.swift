import PandoBytes

/// What a start has cut off the end of the journal: bytes that were written and never synced, or the last
/// batch where the disk has damaged it. Nothing tells the two apart where no later record proves that these
/// bytes were on the disk (`JournalFormat.swift`), so a copy is kept for the operator.
package struct TornTail: Equatable, Sendable {
    /// The last segment.
    package let segment: SegmentName
    /// Where in it the first entry began that cannot be read as a whole.
    package let byteOffset: Int
    /// The sequence of the first record of that entry. The next record that is written gets it.
    package let sequence: SequenceNumber
    /// Up to the last byte that is not zero.
    package let byteCount: Int
    /// The file with a copy of the bytes; nil where there is none.
    package var copy: String?
    /// Why there is no copy: space or descriptors were short.
    package var shortage: DiskFailure?

    /// Bytes that the copy has: the first ones, where there are more.
    package var copiedByteCount: Int { min(byteCount, Self.copyByteLimit) }

    /// The largest copy. A batch has rarely more than a few mebibytes.
    static let copyByteLimit = 16 << 20
    /// Copies that are kept: the newest. Each crash may leave one.
    static let copyCountLimit = 4
}

/// The name of such a copy, `journal-00000001-0000000000000001.log.torn-4096-1a2b3c4d`: where the bytes were,
/// and their checksum. So a start that is repeated after a crash writes the same file again.
struct TornTailName: Comparable {
    let segment: SegmentName
    let byteOffset: Int
    let checksum: UInt32

    private static let mark = "torn"
    /// Of a copy that is not complete. A start removes it, like all unfinished files.
    static let unfinished = SegmentName.prefix + mark + SegmentName.unfinishedSuffix

    init(segment: SegmentName, byteOffset: Int, checksum: UInt32) {
        self.segment = segment
        self.byteOffset = byteOffset
        self.checksum = checksum
    }

    /// Reads a name that ``text`` writes; nil for any other.
    init?(_ name: String) {
        guard let dot = name.lastIndex(of: "."), let segment = SegmentName(String(name[..<dot])) else {
            return nil
        }
        let parts = name[dot...].dropFirst().split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0] == Self.mark, let byteOffset = Int(parts[1]),
            let checksum = UInt32(parts[2], radix: 16)
        else { return nil }
        self.init(segment: segment, byteOffset: byteOffset, checksum: checksum)
        guard text == name else { return nil }
    }

    var text: String {
        "\(segment.text).\(Self.mark)-\(byteOffset)-\(hexadecimal(UInt64(checksum), digits: 8))"
    }

    /// By their places in the journal, which is mostly the order in which they were made.
    static func < (left: TornTailName, right: TornTailName) -> Bool {
        (left.segment, left.byteOffset, left.checksum) < (right.segment, right.byteOffset, right.checksum)
    }
}

extension FileWindow {
    /// Copies a torn tail of this file into a file of its own, durably, and removes the oldest copies.
    /// - Returns: `tail` with the name of the copy, or with the shortage because of which there is none.
    /// - Throws: ``DiskFailure``, but for a shortage.
    mutating func keep(_ tail: TornTail, on disk: Storage) throws(DiskFailure) -> TornTail {
        var tail = tail
        do throws(DiskFailure) {
            let name = try copy(tail, on: disk)
            tail.copy = name.text
            // One that cannot be removed, or is gone, keeps no server from starting.
            let names = ((try? disk.list()) ?? []).compactMap { TornTailName($0) }.sorted()
            for old in names.dropLast(TornTail.copyCountLimit) where old != name {
                try? disk.remove(old.text)
            }
        } catch {
            guard error.isShortage else { throw error }
            tail.shortage = error
        }
        return tail
    }

    private mutating func copy(_ tail: TornTail, on disk: Storage) throws(DiskFailure) -> TornTailName {
        let copy = try disk.open(TornTailName.unfinished, .create)
        do throws(DiskFailure) {
            var checksum: UInt32 = 0
            var written = 0
            while written < tail.copiedByteCount {
                let start = tail.byteOffset + written
                let count = min(Self.usualByteCount, tail.copiedByteCount - written)
                try load(start..<start + count)
                checksum = crc32c(bytes(start..<start + count), continuing: checksum)
                try disk.write(bytes(start..<start + count), to: copy, at: written)
                written += count
            }
            try disk.sync(copy)
            let name = TornTailName(segment: tail.segment, byteOffset: tail.byteOffset, checksum: checksum)
            try disk.rename(TornTailName.unfinished, to: name.text)
            try disk.syncDirectory()
            return name
        } catch {
            // Releases the space of a full disk. If that fails, the next start removes the file.
            try? disk.remove(TornTailName.unfinished)
            throw error
        }
    }
}
