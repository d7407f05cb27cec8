import PandoBytes
import PandoJournal
import PandoRandom
import PandoSimulatedDisk
import Testing

/// The format of one checkpoint, its damage, and which one recovery uses.
@Suite struct CheckpointTests {
    static let three = [Entry("first"), Entry("the second"), Entry("3")]

    /// Three entries, a checkpoint after the second, another after the third, and one more entry.
    static func disk() throws -> SimulatedDisk {
        let disk = try makeDisk((three + [Entry("fourth")]).map { [$0] })
        try writeCheckpoint(checkpointHeader(SequenceNumber(2)), of: Array(three[..<2]), on: disk)
        try writeCheckpoint(checkpointHeader(SequenceNumber(3)), of: three, on: disk)
        return disk
    }

    static let older = CheckpointName(timeline: 1, sequence: SequenceNumber(2)).text
    static let newer = CheckpointName(timeline: 1, sequence: SequenceNumber(3)).text
    static let all = three + [Entry("fourth")]

    /// The bytes, after the drawing in `CheckpointFormat.swift`. If this fails, old checkpoints can no longer
    /// be read: raise the version and keep the old reader.
    @Test func goldenBytes() throws {
        let file = checkpointFile(42, of: [Entry("hello")])
        #expect(file.name == "checkpoint-00000001-000000000000002a.chk")
        var golden: [UInt8] = []
        golden += Array("PNDOCHK1".utf8)
        golden.append(littleEndian: UInt32(1))
        golden += (0...15).map { UInt8($0) }
        golden.append(littleEndian: UInt32(1))
        golden.append(littleEndian: UInt64(42))
        golden.append(littleEndian: UInt64(1000))
        golden.append(littleEndian: UInt32(0))
        let seed = slowCRC32C(golden, continuing: 0)
        golden.append(littleEndian: seed)
        func block(_ records: [UInt8], first: UInt64) -> [UInt8] {
            var body: [UInt8] = []
            body.append(littleEndian: UInt32(records.count))
            body.append(littleEndian: first)
            body += records
            var block: [UInt8] = []
            block.append(littleEndian: slowCRC32C(body, continuing: seed))
            return block + body
        }
        let payload = Entry("hello").flat
        var record: [UInt8] = []
        record.append(littleEndian: UInt32(payload.count))
        record += [8, 0, 0, 0, 1, 0, 0, 0]
        golden += block(record + payload, first: 0) + block([], first: 1)
        #expect(file.bytes == golden)
    }

    @Test func newestCheckpointIsUsed() throws {
        let disk = try Self.disk()
        disk.losePower(seed: 1)
        let (entries, summary) = try recover(disk)
        #expect(entries == Self.all)
        #expect(summary.checkpoint == checkpointHeader(SequenceNumber(3)))
        #expect(summary.checkpointRecordCount == 3)
        #expect(summary.damagedCheckpoints.isEmpty)
        #expect(summary.replayedByteCount == 48)
    }

    /// Many blocks, and one record larger than a block.
    @Test func manyBlocks() throws {
        let entries = (0..<40).map {
            Entry(String(repeating: "\($0 % 10)", count: $0 == 20 ? 3 << 20 : 100_000))
        }
        let disk = try makeDisk([entries])
        try writeCheckpoint(checkpointHeader(SequenceNumber(40)), of: entries, on: disk)
        disk.losePower(seed: 2)
        let (recovered, summary) = try recover(disk)
        #expect(recovered == entries)
        #expect(summary.checkpointRecordCount == 40 && summary.replayedByteCount == 0)
    }

    /// With any bit flipped, or any length, the older checkpoint and the journal behind it are used, nothing
    /// is lost, and the damaged file is renamed. With both damaged the whole journal is used, where it is
    /// still there.
    @Test(arguments: [true, false])
    func damagedCheckpointFallsBack(isOlderDamaged: Bool) throws {
        let whole = try Self.disk().contents
        let bytes = try #require(whole[Self.newer])
        var damages: [(String, [UInt8])] = []
        for offset in bytes.indices {
            for bit in 0..<8 {
                var flipped = bytes
                flipped[offset] ^= 1 << bit
                damages.append(("byte \(offset), bit \(bit)", flipped))
            }
        }
        for length in bytes.indices { damages.append(("length \(length)", Array(bytes[..<length]))) }
        damages.append(("a byte too many", bytes + [0]))
        for (reason, damaged) in damages {
            var files = whole
            files[Self.newer] = damaged
            if isOlderDamaged { files[Self.older]?[60] ^= 4 }
            let disk = SimulatedDisk(files: files)
            let report = try inspect(disk) { _, _ in }
            #expect(report.problems.count == (isOlderDamaged ? 2 : 1), "\(reason)")
            let (entries, summary) = try recover(disk)
            #expect(entries == Self.all, "\(reason)")
            #expect(summary.checkpoint?.sequence.rawValue == (isOlderDamaged ? nil : 2), "\(reason)")
            #expect(summary.damagedCheckpoints.count == (isOlderDamaged ? 2 : 1), "\(reason)")
            #expect(summary.damagedCheckpoints.first?.file == Self.newer)
            #expect(summary.damagedCheckpoints.first == report.problems.last, "\(reason)")
            #expect(disk.contents[Self.newer] == nil && disk.contents[Self.newer + ".damaged"] == damaged)
        }
    }

    /// The report names the byte offset at which the block begins.
    @Test func damageIsReportedWithItsBlock() throws {
        let entries = (0..<40).map { Entry(String(repeating: "\($0 % 10)", count: 100_000)) }
        var file = checkpointFile(40, of: entries)
        file.bytes[2_500_000] ^= 1
        let disk = SimulatedDisk(files: [
            firstSegment: try #require(try makeDisk([entries]).contents[firstSegment])
        ])
        disk.add(file.name, file.bytes)
        let summary = try recover(disk).summary
        let problem = try #require(summary.damagedCheckpoints.first)
        #expect(problem.flaw == .checkpointDamaged(.checksumMismatch))
        #expect(problem.byteOffset > 2_100_000 && problem.byteOffset <= 2_500_000)
    }

    struct Case: CustomTestStringConvertible {
        let reason: String
        let problem: JournalProblem
        let files: [String: [UInt8]]
        var testDescription: String { reason }
    }

    static let cases: [Case] = {
        let journal = SegmentTests.files(SegmentTests.segment(1, through: 3))
        func beside(_ file: (name: String, bytes: [UInt8])) -> [String: [UInt8]] {
            journal.merging([file.name: file.bytes]) { $1 }
        }
        let good = checkpointFile(3)
        var future = good
        future.bytes[8] = 2
        let checksum = slowCRC32C(future.bytes[..<52], continuing: 0)
        future.bytes.replace(littleEndian: checksum, at: 52)
        let foreign = checkpointFile(3, directory: DirectoryID(9, 9))
        let timeline = checkpointFile(3, timeline: 2)
        let ahead = checkpointFile(4)
        let segments = SegmentTests.files(
            SegmentTests.segment(1, through: 3), SegmentTests.segment(4, through: 5),
            SegmentTests.segment(7, through: 8))
        return [
            Case(
                reason: "a later version",
                problem: JournalProblem(file: future.name, byteOffset: 0, flaw: .unsupportedVersion(2)),
                files: beside(future)),
            Case(
                reason: "of another directory",
                problem: JournalProblem(
                    file: foreign.name, byteOffset: 12,
                    flaw: .foreignDirectory(expected: testID, found: DirectoryID(9, 9))),
                files: beside(foreign)),
            Case(
                reason: "of another timeline",
                problem: JournalProblem(file: timeline.name, byteOffset: 0, flaw: .noSegments),
                files: beside(timeline)),
            Case(
                reason: "the journal ends before it",
                problem: JournalProblem(
                    file: firstSegment, byteOffset: 192,
                    flaw: .endsBeforeCheckpoint(last: SequenceNumber(3), checkpoint: SequenceNumber(4))),
                files: beside(ahead)),
            Case(
                reason: "no journal at all",
                problem: JournalProblem(file: good.name, byteOffset: 0, flaw: .noSegments),
                files: [good.name: good.bytes]),
            Case(
                reason: "a segment is missing behind it",
                problem: JournalProblem(
                    file: SegmentName(timeline: 1, firstSequence: SequenceNumber(7)).text, byteOffset: 32,
                    flaw: .sequenceGap(expected: SequenceNumber(6), found: SequenceNumber(7))),
                files: segments.merging([good.name: good.bytes]) { $1 }),
            Case(
                reason: "a name that this server does not write",
                problem: JournalProblem(file: "checkpoint-3.chk", byteOffset: 0, flaw: .unreadableName),
                files: journal.merging(["checkpoint-3.chk": good.bytes]) { $1 }),
        ]
    }()

    @Test(arguments: cases)
    func refuses(_ example: Case) throws {
        #expect(outcome(of: example.files) == .failure(.corrupt(example.problem)))
        let disk = SimulatedDisk(files: example.files)
        _ = try? recover(disk)
        #expect(disk.contents == example.files, "a refusal changed a file")
        let report = try inspect(disk) { _, _ in }
        #expect(report.problems.contains { $0.file == example.problem.file }, "\(report.problems)")
    }

    /// Checkpoints are damaged, and the journal before them is gone: the refusal names the newest of them,
    /// and the gap as the reason why it is needed. What is intact is not to be moved away.
    @Test(arguments: [[3], [2, 3]] as [[UInt64]])
    func damagedCheckpointsWithoutTheJournalBeforeAreReported(sequences: [UInt64]) throws {
        var files = SegmentTests.files(SegmentTests.segment(3, through: 5))
        if sequences == [3] { files = SegmentTests.files(SegmentTests.segment(4, through: 5)) }
        let gap = JournalProblem(
            file: try #require(files.keys.first), byteOffset: 32,
            flaw: .sequenceGap(
                expected: SequenceNumber(1), found: SequenceNumber(sequences == [3] ? 4 : 3)))
        for sequence in sequences {
            var file = checkpointFile(sequence)
            file.bytes[60] ^= 1
            files[file.name] = file.bytes
        }
        let newest = CheckpointName(timeline: 1, sequence: SequenceNumber(3)).text
        let problem = JournalProblem(
            file: newest, byteOffset: 56,
            flaw: .irreplaceable(.checkpointDamaged(.cutShort), because: gap))
        #expect(outcome(of: files) == .failure(.corrupt(problem)))
        #expect("\(problem)".hasPrefix("\(newest), byte 56: a damaged block of the checkpoint"))
        #expect("\(problem)".hasSuffix("(\(gap))"))
        for advised in [problem, gap] {
            #expect(!JournalError.corrupt(advised).description.contains("move the file away"))
        }
        let report = try inspect(SimulatedDisk(files: files)) { _, _ in }
        #expect(
            report.problems.map(\.file)
                == sequences.map {
                    CheckpointName(timeline: 1, sequence: SequenceNumber($0)).text
                })
    }

    /// Damage of the journal behind a damaged checkpoint would be there with an intact one, too.
    @Test func damageBehindADamagedCheckpointIsThatOfTheSegment() throws {
        var builder = SegmentTests.segment(1, through: 6)
        builder.bytes[48 + 4 * 48 + 45] ^= 1  // record 5
        var files = SegmentTests.files(builder)
        var file = checkpointFile(3)
        file.bytes[60] ^= 1
        files[file.name] = file.bytes
        #expect {
            try recover(SimulatedDisk(files: files))
        } throws: { error in
            guard case JournalError.corrupt(let problem) = error else { return false }
            return problem.file == firstSegment && problem.byteOffset == 240
        }
    }

    /// The message says which kind of file has a damaged header.
    @Test func damagedHeaderNamesTheKindOfFile() throws {
        var file = checkpointFile(3)
        file.bytes[10] ^= 1
        var segment = SegmentTests.segment(1, through: 3)
        segment.bytes[20] ^= 1
        for (files, text) in [
            ([file.name: file.bytes], "the checkpoint's header is damaged"),
            (SegmentTests.files(segment), "the segment's header is damaged"),
        ] {
            let problems = try inspect(SimulatedDisk(files: files)) { _, _ in }.problems
            #expect(problems.count == 1 && "\(problems[0])".contains(text), "\(problems)")
        }
    }

    /// What the disk cannot read is treated as damage, but the file is not renamed: its bytes may be good.
    @Test(arguments: [nil, 0, 2] as [Int?])
    func unreadableCheckpointFallsBack(goodReadCount: Int?) throws {
        let entries = (0..<40).map { Entry(String(repeating: "\($0 % 10)", count: 100_000)) }
        let disk = try makeDisk([entries])
        try writeCheckpoint(checkpointHeader(SequenceNumber(20)), of: Array(entries[..<20]), on: disk)
        try writeCheckpoint(checkpointHeader(SequenceNumber(40)), of: entries, on: disk)
        let newer = CheckpointName(timeline: 1, sequence: SequenceNumber(40)).text
        let bad = UnreadableDisk(disk, newer, goodReadCount: goodReadCount)
        var history = History()
        #expect(try readDirectory(bad, into: &history).checkpoint?.sequence.rawValue == 20)
        #expect(history.entries == entries)
        let (found, summary) = try recover(bad)
        #expect(found == entries && summary.checkpoint?.sequence.rawValue == 20)
        #expect(summary.damagedCheckpoints.map(\.file) == [newer])
        let areReadFailures = summary.damagedCheckpoints.allSatisfy(\.flaw.isReadFailure)
        #expect(areReadFailures)
        #expect(disk.fileNames.contains(newer))
        #expect(try inspect(bad) { _, _ in }.problems.map(\.file) == [newer])
        #expect(try recover(disk).summary.checkpoint?.sequence.rawValue == 40, "it can be read again")
    }

    /// What may pass, or is a matter of permissions, says nothing about the file: EACCES, EMFILE and ENOMEM.
    @Test(arguments: [13, 24, 12] as [Int32])
    func shortageIsNoDamage(errorNumber: Int32) throws {
        let disk = UnreadableDisk(try Self.disk(), Self.newer, errorNumber: errorNumber)
        #expect {
            try recover(disk)
        } throws: { error in
            guard case JournalError.disk(let failure) = error else { return false }
            return failure.errorNumber == errorNumber
        }
    }

    /// Two checkpoints of a later timeline beside a journal of an earlier one: no restore leaves that, and
    /// the earlier data is not used instead.
    @Test func damagedCheckpointsOfALaterTimelineAreRefused() throws {
        let disk = try Self.disk()
        for sequence in [1, 2] as [UInt64] {
            var file = checkpointFile(sequence, timeline: 2)
            file.bytes[10] ^= 1
            disk.add(file.name, file.bytes)
        }
        let newest = CheckpointName(timeline: 2, sequence: SequenceNumber(2)).text
        #expect {
            try recover(disk)
        } throws: { error in
            guard case JournalError.corrupt(let problem) = error else { return false }
            return problem.file == newest
        }
        var history = History()
        #expect(throws: JournalError.self, "also up to a moment") {
            try readDirectory(disk, until: .sequence(SequenceNumber(1)), into: &history)
        }
    }

    /// Where the host rejects a record of a checkpoint, the older one is used, as it is for a damaged block.
    @Test func rejectedCheckpointFallsBack() throws {
        let disk = try makeDisk(Self.three.map { [$0] })
        var writer = try CheckpointWriter(checkpointHeader(SequenceNumber(3)), on: disk)
        try writer.append(.rules, namespace: 1, payload: [1].rawSpan)
        _ = try writer.finish()
        let (entries, summary) = try recover(disk)
        #expect(entries == Self.three)
        #expect(
            summary.damagedCheckpoints.map(\.flaw)
                == [.rejected(sequence: SequenceNumber(3), reason: "no entry")])
    }

    @Test func supersededFilesAreRemoved() throws {
        let disk = SimulatedDisk(
            files: SegmentTests.files(
                SegmentTests.segment(1, through: 3), SegmentTests.segment(4, through: 5),
                SegmentTests.segment(6, through: 6), SegmentTests.segment(7, through: 9)))
        func names() -> [String] { disk.fileNames.map { String($0.drop { $0 != "-" }.dropFirst(10)) } }
        try writeCheckpoint(checkpointHeader(SequenceNumber(5)), of: [], on: disk)
        #expect(try removeSuperseded(on: disk, timeline: 1, keepingCheckpoints: 2).isEmpty, "one is too few")
        try writeCheckpoint(checkpointHeader(SequenceNumber(8)), of: [], on: disk)
        let removed = try removeSuperseded(on: disk, timeline: 1, keepingCheckpoints: 2)
        #expect(removed == [1, 4].map { SegmentName(timeline: 1, firstSequence: SequenceNumber($0)).text })
        try writeCheckpoint(checkpointHeader(SequenceNumber(9)), of: [], on: disk)
        #expect(try removeSuperseded(on: disk, timeline: 1, keepingCheckpoints: 3).isEmpty)
        #expect(
            try removeSuperseded(on: disk, timeline: 1, keepingCheckpoints: 2)
                == [
                    CheckpointName(timeline: 1, sequence: SequenceNumber(5)).text,
                    SegmentName(timeline: 1, firstSequence: SequenceNumber(6)).text,
                ])
        #expect(try inspect(disk) { _, _ in }.problems.isEmpty)
    }

    /// A checkpoint that the disk cannot read is none of those that are kept: recovery could not use it.
    @Test func unreadableCheckpointDoesNotCount() throws {
        let disk = try Self.disk()
        let bad = UnreadableDisk(disk, Self.newer)
        let unreadable = try recover(bad).summary.unreadableCheckpoints
        #expect(unreadable == [Self.newer])
        try writeCheckpoint(checkpointHeader(SequenceNumber(4)), of: Self.all, on: disk)
        #expect(
            try removeSuperseded(on: disk, timeline: 1, keepingCheckpoints: 2, besides: unreadable).isEmpty,
            "the older one is needed")
        disk.flipBit(of: CheckpointName(timeline: 1, sequence: SequenceNumber(4)).text, at: 500)
        #expect(try recover(UnreadableDisk(disk, Self.newer)).entries == Self.all)
    }

    /// A power cut may leave any part of a removal, in any order: neither a start nor an inspection reports
    /// damage.
    @Test func interruptedRemovalIsRecovered() throws {
        func disk() throws -> SimulatedDisk {
            let disk = SimulatedDisk(
                files: SegmentTests.files(
                    SegmentTests.segment(1, through: 2), SegmentTests.segment(3, through: 3),
                    SegmentTests.segment(4, through: 5), SegmentTests.segment(6, through: 9)))
            for sequence in [3, 5, 8] as [UInt64] {
                try writeCheckpoint(checkpointHeader(SequenceNumber(sequence)), of: [], on: disk)
            }
            return disk
        }
        let whole = try disk()
        let start = whole.operationCount
        #expect(try removeSuperseded(on: whole, timeline: 1, keepingCheckpoints: 2).count == 4)
        for crashPoint in start...whole.operationCount {
            for seed in 0..<32 as Range<UInt64> {
                let disk = try disk()
                disk.crashPoint = crashPoint
                _ = try? removeSuperseded(on: disk, timeline: 1, keepingCheckpoints: 2)
                disk.losePower(seed: seed)
                let context: Comment =
                    "before operation \(crashPoint - start), seed \(seed): \(disk.fileNames)"
                #expect(try inspect(disk) { _, _ in }.problems.isEmpty, context)
                let (entries, summary) = try recover(disk)
                #expect(summary.checkpoint == checkpointHeader(SequenceNumber(8)), context)
                #expect(SegmentTests.payloads(entries) == [9], context)
            }
        }
    }

    /// Reading without the lock while the other process removes files.
    @Test func readingNeedsNoLock() throws {
        let disk = try Self.disk()
        let holder = try disk.lock("LOCK")
        let files = disk.contents
        var host = History()
        let summary = try readDirectory(disk, into: &host)
        withExtendedLifetime(holder) {}
        #expect(host.entries == Self.all && host.restoredCount == 3)
        #expect(summary.checkpoint?.sequence == SequenceNumber(3))
        #expect(disk.contents == files)
        var nothing = History()
        #expect(try readDirectory(SimulatedDisk(), into: &nothing).isNew)
    }

    @Test func namesRoundTrip() {
        let name = CheckpointName(timeline: 1, sequence: SequenceNumber(42))
        #expect(CheckpointName(name.text) == name)
        for other in ["checkpoint-1.chk", "checkpoint-00000001-000000000000002A.chk", "checkpoint-.chk", "x"]
        {
            #expect(CheckpointName(other) == nil)
        }
    }

    /// Any bytes behind a good header give an error or the end, never a trap.
    @Test(arguments: 0..<100 as Range<UInt64>)
    func arbitraryBytesNeverTrap(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var file = checkpointFile(3, of: Self.three)
        for _ in 0..<Int.random(in: 1...12, using: &random) {
            file.bytes[Int.random(in: 56..<file.bytes.count, using: &random)] = .random(
                in: 0...255, using: &random)
        }
        let disk = try makeDisk(Self.three.map { [$0] })
        disk.add(file.name, file.bytes)
        #expect(try recover(disk).entries == Self.three)
    }
}

/// Data directories that earlier versions wrote: every later version opens them.
@Suite struct FixtureTests {
    @Test func version1() throws {
        let files = try fixture("version-1")
        #expect(Array(files.keys) == [firstSegment])
        let disk = SimulatedDisk(files: files)
        #expect(try inspect(disk) { _, _ in }.problems.isEmpty)
        let (entries, summary) = try recover(disk)
        #expect(summary.lastSequence == SequenceNumber(9))
        #expect(
            entries.flatMap { $0.records.map(\.kind) } == [
                .delta, .delta, .rules, .settings, .namespaceMade, .delta, .onDisconnectRegistered,
                .onDisconnectRegistered, .onDisconnectCancelled,
            ])
    }
}

extension FixtureTests {
    /// Of the version that has writers and publishers (kinds 9 and 10), and histories of timelines:
    /// `Tests/EndToEnd/upgrade_fixture.py` made it.
    @Test func version1WithWritersAndTimelines() throws {
        let data = SimulatedDisk(files: try fixture("version-1-complete/data"))
        #expect(try inspect(data) { _, _ in }.problems.isEmpty)
        var target = KindCounter()
        let journal = try Journal.open(on: data, newDirectoryID: testID, into: &target)
        #expect(journal.timeline == 2)
        #expect(target.restored[.tree] == 2 && target.restored[.rules] == 1)
        #expect(target.replayed[.authoredDelta] == 3 && target.replayed[.onDisconnectRegistered] == 1)
        let history = try #require(try TimelineHistory.read(2, on: data))
        #expect(history.directory == journal.recovery.directory)

        let archive = SimulatedDisk(files: try fixture("version-1-complete/archive"))
        let name = try #require(try archive.list().first { $0.hasSuffix(".partial") })
        let segment = SimulatedDisk(files: [
            String(name.dropLast(".partial".count)): try #require(
                try fixture("version-1-complete/archive")[name])
        ])
        target = KindCounter()
        _ = try readDirectory(segment, into: &target)
        #expect(target.replayed[.publishedRules] == 1 && target.replayed[.authoredDelta] == 3)
    }
}

/// Counts the records by their kinds.
private struct KindCounter: RecoveryTarget {
    var restored: [RecordKind: Int] = [:]
    var replayed: [RecordKind: Int] = [:]

    mutating func startOver() { restored = [:] }
    mutating func restore(_ record: borrowing RecoveredRecord) { restored[record.kind, default: 0] += 1 }
    mutating func replay(_ entry: borrowing RecoveredEntry) {
        entry.forEach { record in replayed[record.kind, default: 0] += 1 }
    }
}

/// The files in a folder of `Fixtures`.
func fixture(_ name: String) throws -> [String: [UInt8]] {
    let folder = String(#filePath.dropLast("CheckpointTests.swift".count)) + "Fixtures/" + name
    let disk = try SystemDisk(directory: folder, create: false)
    var files: [String: [UInt8]] = [:]
    for name in try disk.list() {
        let file = try disk.open(name, .read)
        var bytes = [UInt8](repeating: 0, count: try disk.byteCount(of: file))
        _ = try unsafe bytes.withUnsafeMutableBytes { try unsafe disk.read(file, at: 0, into: $0) }
        files[name] = bytes
    }
    return files
}
