import PandoBytes

//  A timeline is the journal of one data directory. A restore makes another data directory, and begins the
//  next timeline:
//
//      timeline 1, of directory a   1 ─── 42 ─────── 60   records 43 to 60 are on timeline 1 only
//      timeline 2, of directory b         └ 43 ── 77      begins behind record 42 of timeline 1
//      timeline 3, of directory c                 └ 78 …
//
//  The restore writes where the timeline comes from into a file of the new data directory,
//  timeline-00000003.history (8 hex digits), and an archive gets a copy of it. It is a text: a line for each
//  ancestor, the oldest first, with its timeline, its data directory and the last record that the next one
//  has; then the timeline itself; then a checksum of the lines before. Sequences go on from one to the next,
//  so that what an archive has of all of them is one journal (``ArchivedJournal``).
//
//      1 000102030405060708090a0b0c0d0e0f 42
//      2 101112131415161718191a1b1c1d1e1f 77
//      3 202122232425262728292a2b2c2d2e2f
//      crc32c 1a2b3c4d

/// A timeline and where it comes from.
package struct TimelineHistory: Equatable, Sendable {
    /// A timeline that another one continues.
    package struct Ancestor: Equatable, Sendable {
        package var timeline: UInt32
        package var directory: DirectoryID
        /// Its last record that the next timeline has.
        package var end: SequenceNumber

        package init(timeline: UInt32, directory: DirectoryID, end: SequenceNumber) {
            self.timeline = timeline
            self.directory = directory
            self.end = end
        }
    }

    package let timeline: UInt32
    package let directory: DirectoryID
    /// The oldest first; timelines ascend, and ends do not descend.
    package let ancestors: [Ancestor]

    /// Ancestors that are kept: the oldest and the newest ones.
    private static let ancestorLimit = 4096
    /// More than so many ancestors take.
    private static let fileByteLimit = 1 << 20

    /// - Parameter ancestors: Of more than a file has, those behind the oldest are left out.
    package init(timeline: UInt32, directory: DirectoryID, ancestors: [Ancestor] = []) {
        self.timeline = timeline
        self.directory = directory
        self.ancestors =
            ancestors.count <= Self.ancestorLimit
            ? ancestors : ancestors.prefix(1) + ancestors.suffix(Self.ancestorLimit - 1)
    }

    /// The data directory in which the oldest timeline began: the same for all that were restored from it.
    package var origin: DirectoryID { ancestors.first?.directory ?? directory }

    /// What a timeline gets that continues this one.
    /// - Parameter end: The last record that it has of this one.
    package func ancestors(until end: SequenceNumber) -> [Ancestor] {
        ancestors + [Ancestor(timeline: timeline, directory: directory, end: end)]
    }

    /// Whether the journal of this timeline and its ancestors goes through a record.
    /// - Parameters:
    ///   - other: The timeline of the record, and `directory` its data directory.
    ///   - sequence: Of the record, or zero for the beginning.
    package func contains(_ other: UInt32, of directory: DirectoryID, upTo sequence: SequenceNumber) -> Bool {
        if other == timeline { return directory == self.directory }
        return ancestors.contains {
            $0.timeline == other && $0.directory == directory && sequence <= $0.end
        }
    }

    /// The last record of a timeline that this one has; nil for the timeline itself, and for one that it does
    /// not have.
    package func end(of other: UInt32) -> SequenceNumber? {
        ancestors.first { $0.timeline == other }?.end
    }

    // MARK: The file

    private static let prefix = "timeline-"
    private static let suffix = ".history"

    /// The name of the file of a timeline.
    package static func fileName(_ timeline: UInt32) -> String {
        prefix + hexadecimal(UInt64(timeline), digits: 8) + suffix
    }

    /// Reads a name that ``fileName(_:)`` writes; nil for any other.
    package static func timeline(ofFile name: String) -> UInt32? {
        guard name.hasPrefix(prefix), name.hasSuffix(suffix),
            let timeline = UInt32(name.dropFirst(prefix.count).dropLast(suffix.count), radix: 16)
        else { return nil }
        return fileName(timeline) == name ? timeline : nil
    }

    /// Reads the history of a timeline.
    /// - Returns: Nil where there is no file: for a first timeline, and one that a version without histories
    ///   has restored.
    /// - Throws: ``JournalError/corrupt(_:)``, ``JournalError/disk(_:)``.
    package static func read<Storage: Disk>(
        _ timeline: UInt32, on disk: Storage
    ) throws(JournalError) -> TimelineHistory? {
        let name = fileName(timeline)
        let names = try onDisk { () throws(DiskFailure) in try disk.list() }
        guard names.contains(name) else { return nil }
        let bytes = try onDisk { () throws(DiskFailure) in
            try readSmallFile(name, limit: fileByteLimit, on: disk)
        }
        guard let bytes, let history = TimelineHistory(bytes), history.timeline == timeline else {
            throw .corrupt(JournalProblem(file: name, byteOffset: 0, flaw: .damagedHistory))
        }
        return history
    }

    /// Writes the file, durably.
    /// - Throws: ``DiskFailure``.
    package func write<Storage: Disk>(on disk: Storage) throws(DiskFailure) {
        try replaceSmallFile(Self.fileName(timeline), with: bytes, on: disk)
    }

    /// The text of the file.
    package var bytes: [UInt8] {
        var text = ""
        for ancestor in ancestors { text += "\(ancestor.timeline) \(ancestor.directory) \(ancestor.end)\n" }
        text += "\(timeline) \(directory)\n"
        let lines = Array(text.utf8)
        return lines + Array("crc32c \(Self.checksum(of: lines))\n".utf8)
    }

    private static func checksum(of lines: [UInt8]) -> String {
        hexadecimal(UInt64(crc32c(lines.rawSpan, continuing: 0)), digits: 8)
    }

    /// Reads what ``bytes`` writes; nil for anything else.
    package init?(_ bytes: [UInt8]) {
        let lines = String(decoding: bytes, as: UTF8.self).split(
            separator: "\n", omittingEmptySubsequences: false
        ).dropLast(2)
        guard let own = lines.last?.split(separator: " "), own.count == 2, let timeline = UInt32(own[0]),
            let directory = DirectoryID(String(own[1]))
        else { return nil }
        var ancestors: [Ancestor] = []
        for line in lines.dropLast() {
            let parts = line.split(separator: " ")
            guard parts.count == 3, let timeline = UInt32(parts[0]),
                let directory = DirectoryID(String(parts[1])), let end = UInt64(parts[2]),
                ancestors.last.map({ $0.timeline < timeline && $0.end.rawValue <= end }) ?? true
            else { return nil }
            ancestors.append(
                Ancestor(timeline: timeline, directory: directory, end: SequenceNumber(end)))
        }
        guard ancestors.last.map({ $0.timeline < timeline }) ?? true, ancestors.count <= Self.ancestorLimit
        else { return nil }
        self.init(timeline: timeline, directory: directory, ancestors: ancestors)
        // One spelling, and the checksum.
        guard self.bytes == bytes else { return nil }
    }
}
