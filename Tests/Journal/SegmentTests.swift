import PandoBytes
import PandoJournal
import PandoRandom
import PandoSimulatedDisk
import Testing

/// Several segments in order, and the inspection of a directory.
@Suite struct SegmentTests {
    static func segment(
        _ first: UInt64, through last: UInt64, directory: DirectoryID = testID, timeline: UInt32 = 1
    ) -> SegmentBuilder {
        var builder = SegmentBuilder(directory: directory, timeline: timeline, firstSequence: first)
        if last >= first {
            for sequence in first...last {
                builder.add(sequence, payload: [UInt8(truncatingIfNeeded: sequence)])
            }
        }
        return builder
    }

    static func files(_ segments: SegmentBuilder...) -> [String: [UInt8]] {
        Dictionary(uniqueKeysWithValues: segments.map { ($0.name, $0.bytes) })
    }

    static func payloads(_ entries: [Entry]) -> [UInt8] { entries.map { $0.records[0].payload[0] } }

    @Test(
        arguments: [
            // checkpoint   read    replayed       because
            (nil, 3, [1, 2, 3, 4, 5, 6], "everything"),
            (2, 3, [3, 4, 5, 6], "in the middle of a segment"),
            (3, 2, [4, 5, 6], "at the border"),
            (6, 1, [], "everything is in the checkpoint"),
        ] as [(UInt64?, Int, [UInt8], String)])
    func segmentsFollowOneAnother(
        checkpoint: UInt64?, readCount: Int, replayed: [UInt8], reason: String
    ) throws {
        var files = Self.files(
            Self.segment(1, through: 3), Self.segment(4, through: 5), Self.segment(6, through: 6))
        let restored = (0..<(checkpoint ?? 0)).map { Entry("\($0)") }
        if let checkpoint {
            let file = checkpointFile(checkpoint, of: restored)
            files[file.name] = file.bytes
        }
        let disk = SimulatedDisk(files: files)
        let (entries, summary) = try recover(disk)
        #expect(Array(entries.prefix(restored.count)) == restored, "\(reason)")
        #expect(Self.payloads(Array(entries.dropFirst(restored.count))) == replayed, "\(reason)")
        #expect(summary.segmentCount == readCount)
        #expect(summary.checkpoint?.sequence.rawValue == checkpoint)
        #expect(summary.lastSequence == SequenceNumber(6))
        disk.killProcess()

        // Appending continues in the last one.
        var none: [Entry] = []
        var journal = try openJournal(on: disk, entries: &none)
        let sequence = try journal.append(.delta, namespace: 1, timestamp: 1, payload: [7])
        try journal.write()
        try journal.sync()
        #expect(sequence == SequenceNumber(7))
        disk.losePower(seed: 1)
        #expect(Self.payloads(Array(try recover(disk).entries.dropFirst(restored.count))) == replayed + [7])
    }

    @Test func emptyOrTornLastSegmentIsAccepted() throws {
        var torn = Self.segment(4, through: 5)
        torn.bytes.removeLast()
        #expect(
            outcome(of: Self.files(Self.segment(1, through: 3), Self.segment(4, through: 3))).map(
                Self.payloads) == .success([1, 2, 3]))
        #expect(
            outcome(of: Self.files(Self.segment(1, through: 3), torn)).map(Self.payloads)
                == .success([1, 2, 3, 4]))
    }

    struct Case: CustomTestStringConvertible {
        let reason: String
        let file: UInt64
        let offset: Int
        let flaw: JournalFlaw
        let segments: [SegmentBuilder]
        var checkpoint: UInt64?
        var testDescription: String { reason }
    }

    static let cases: [Case] = {
        let first = segment(1, through: 3)
        var torn = first, damaged = first, open = first
        torn.bytes.removeLast(8)
        damaged.bytes[60] ^= 1
        open.add(4, flags: 1)
        var pair = SegmentBuilder()
        pair.add(1, durable: 0, flags: 1)
        pair.add(2, durable: 0, flags: 2)
        return [
            Case(
                reason: "a segment is missing", file: 6, offset: 32,
                flaw: .sequenceGap(expected: SequenceNumber(4), found: SequenceNumber(6)),
                segments: [first, segment(6, through: 7)]),
            Case(
                reason: "two segments overlap", file: 3, offset: 32,
                flaw: .sequenceRepeats(expected: SequenceNumber(4), found: SequenceNumber(3)),
                segments: [first, segment(3, through: 7)]),
            Case(
                reason: "copied from elsewhere", file: 4, offset: 12,
                flaw: .foreignDirectory(expected: testID, found: DirectoryID(9, 9)),
                segments: [first, segment(4, through: 7, directory: DirectoryID(9, 9))]),
            Case(
                reason: "torn, but another segment follows", file: 1, offset: 48 + 96,
                flaw: .damaged(.cutShort, sequence: SequenceNumber(3), witness: SequenceNumber(4)),
                segments: [torn, segment(4, through: 3)]),
            Case(
                reason: "damaged, and another segment follows", file: 1, offset: 48,
                flaw: .damaged(.checksumMismatch, sequence: SequenceNumber(1), witness: SequenceNumber(4)),
                segments: [damaged, segment(4, through: 4)]),
            Case(
                reason: "an entry across segments", file: 1, offset: 48 + 144 + 48,
                flaw: .entryUnfinished(sequence: SequenceNumber(4)), segments: [open, segment(5, through: 5)]),
            Case(
                reason: "the journal's beginning is missing", file: 4, offset: 32,
                flaw: .sequenceGap(expected: SequenceNumber(1), found: SequenceNumber(4)),
                segments: [segment(4, through: 5)]),
            Case(
                reason: "the journal begins after the checkpoint", file: 4, offset: 32,
                flaw: .sequenceGap(expected: SequenceNumber(3), found: SequenceNumber(4)),
                segments: [segment(4, through: 5)], checkpoint: 2),
            Case(
                reason: "the journal ends before the checkpoint", file: 1, offset: 192,
                flaw: .endsBeforeCheckpoint(last: SequenceNumber(3), checkpoint: SequenceNumber(9)),
                segments: [first], checkpoint: 9),
            Case(
                reason: "sequences would overflow", file: .max, offset: 0,
                flaw: .impossibleFirstSequence(SequenceNumber(.max)), segments: [segment(.max, through: 0)]),
            Case(
                reason: "the checkpoint ends inside an entry", file: 1, offset: 48,
                flaw: .checkpointInsideEntry(checkpoint: SequenceNumber(1), last: SequenceNumber(2)),
                segments: [pair], checkpoint: 1),
        ]
    }()

    @Test(arguments: cases)
    func refuses(_ example: Case) {
        var files = Dictionary(uniqueKeysWithValues: example.segments.map { ($0.name, $0.bytes) })
        if let checkpoint = example.checkpoint {
            let file = checkpointFile(checkpoint)
            files[file.name] = file.bytes
        }
        let name = SegmentName(timeline: 1, firstSequence: SequenceNumber(example.file)).text
        let problem = JournalProblem(file: name, byteOffset: example.offset, flaw: example.flaw)
        #expect(outcome(of: files) == .failure(.corrupt(problem)))
        // An inspection finds the problem that the start refuses.
        let report = try? inspect(SimulatedDisk(files: files)) { _, _ in }
        #expect(report?.problems.isEmpty == false)
    }

    @Test func otherTimelineIsRefused() {
        let second = Self.segment(4, through: 5, timeline: 2)
        let problem = JournalProblem(
            file: second.name, byteOffset: 28, flaw: .foreignTimeline(expected: 1, found: 2))
        #expect(outcome(of: Self.files(Self.segment(1, through: 3), second)) == .failure(.corrupt(problem)))
    }

    @Test func headersThatContradictNamesAreRefused() {
        let first = Self.segment(1, through: 3)
        func refusal(_ name: String, _ offset: Int, _ flaw: JournalFlaw) -> Result<[Entry], JournalError> {
            .failure(.corrupt(JournalProblem(file: name, byteOffset: offset, flaw: flaw)))
        }
        let renamed = SegmentName(timeline: 1, firstSequence: SequenceNumber(2)).text
        #expect(outcome(of: [renamed: first.bytes]) == refusal(renamed, 28, .nameContradictsHeader))
        #expect(outcome(of: ["journal-7.log": first.bytes]) == refusal("journal-7.log", 0, .unreadableName))
        #expect(
            outcome(of: Array("not a journal at all, but some other file of a length".utf8))
                == refusal(firstSegment, 0, .notASegment))
        var newer = first.bytes
        newer[8] = 2
        #expect(outcome(of: newer) == refusal(firstSegment, 0, .unsupportedVersion(2)))
        #expect(outcome(of: []) == refusal(firstSegment, 0, .headerCutShort(byteCount: 0)))
    }

    /// A crash while the first segment was made leaves a file with another name and any content.
    @Test(arguments: [0, 1, 47, 48])
    func unfinishedSegmentIsMadeAgain(byteCount: Int) throws {
        let name = firstSegment + ".new"
        let disk = SimulatedDisk(files: [
            name: Array(SegmentBuilder().bytes[..<byteCount]), "lost+found": [1],
        ])
        let (entries, summary) = try recover(disk)
        #expect(entries.isEmpty)
        #expect(summary.isNew)
        #expect(disk.fileNames == [firstSegment, "lost+found"])
        disk.losePower(seed: 3)
        #expect(try recover(disk).summary.isNew == false)
    }

    /// A crash while a small file was replaced leaves one that the next start removes, and that keeps no
    /// restore from a directory.
    @Test(arguments: [
        ("timeline-00000002.history.new", true), ("archive.place.new", true), ("backup.place.new", true),
        ("timeline-2.history.new", false), ("notes.new", false), ("notes.place.new", false),
    ])
    func unfinishedSmallFileIsRemoved(name: String, isOurs: Bool) throws {
        let disk = SimulatedDisk(files: [name: [1]])
        #expect(try DirectoryContents(of: disk).otherFiles == (isOurs ? [] : [name]))
        if isOurs {
            _ = try recover(disk)
        } else {
            // Another program's directory is left as it is.
            #expect(throws: JournalError.self) { try recover(disk) }
        }
        #expect(disk.fileNames.contains(name) != isOurs)
    }

    @Test func inspectionListsEveryRecord() throws {
        let disk = SimulatedDisk(files: [firstSegment: FormatTests.golden])
        var records: [InspectedRecord] = []
        var payloads: [[UInt8]] = []
        let report = try inspect(disk) { record, payload in
            records.append(record)
            payloads.append(copy(of: payload))
        }
        #expect(report.problems.isEmpty)
        #expect(report.entryCount == 2 && report.recordCount == 3 && report.segmentCount == 1)
        #expect(records.map(\.byteOffset) == [48, 96, 144])
        #expect(records.map(\.payloadRange) == [88..<93, 136..<144, 184..<184])
        #expect(records.map(\.flags) == [[.begin, .commit], .begin, .commit])
        #expect(records.map(\.durable.rawValue) == [0, 1, 1])
        #expect(records.map(\.namespace) == [1, 0xABCD, 0xABCD])
        #expect(records.map(\.kind) == [.delta, .delta, .onDisconnectCancelled])
        #expect(records.map { Array(FormatTests.golden[$0.payloadRange]) } == payloads)
    }

    /// An inspection reports every problem of every file and every good record, and changes nothing, with or
    /// without the lock.
    @Test func inspectionContinuesAfterProblems() throws {
        var first = Self.segment(1, through: 5)
        first.bytes[48 + 48 + 20] ^= 1  // record 2
        first.bytes[48 + 3 * 48 + 45] ^= 1  // record 4
        var third = Self.segment(9, through: 11)
        third.bytes.removeLast(9)
        var files = Self.files(first, Self.segment(6, through: 7), third)
        files["journal-x.log"] = [1]
        let disk = SimulatedDisk(files: files)
        let holder = try disk.lock("LOCK")
        var sequences: [UInt64] = []
        let report = try inspect(disk) { record, _ in sequences.append(record.sequence.rawValue) }
        withExtendedLifetime(holder) {}

        let thirdName = third.name
        #expect(sequences == [1, 3, 5, 6, 7, 9, 10])
        #expect(
            report.problems == [
                JournalProblem(file: "journal-x.log", byteOffset: 0, flaw: .unreadableName),
                JournalProblem(
                    file: firstSegment, byteOffset: 96,
                    flaw: .damaged(.checksumMismatch, sequence: SequenceNumber(2), witness: SequenceNumber(6))
                ),
                JournalProblem(
                    file: firstSegment, byteOffset: 192,
                    flaw: .damaged(.checksumMismatch, sequence: SequenceNumber(4), witness: SequenceNumber(6))
                ),
                JournalProblem(
                    file: thirdName, byteOffset: 32,
                    flaw: .sequenceGap(expected: SequenceNumber(8), found: SequenceNumber(9))),
                // After these 33 bytes, zeros.
                JournalProblem(file: thirdName, byteOffset: 144, flaw: .tornTail(byteCount: 33)),
            ])
        #expect(disk.contents == files)
    }

    /// A file that the disk cannot read is a problem like any other: the inspection goes on with the next
    /// one, and reports no gap where records could not be read.
    @Test(arguments: 0..<3, [nil, 0] as [Int?])
    func inspectionGoesOnBehindUnreadableSegment(index: Int, goodReadCount: Int?) throws {
        let segments = [
            Self.segment(1, through: 5), Self.segment(6, through: 7), Self.segment(8, through: 11),
        ]
        let disk = SimulatedDisk(files: Self.files(segments[0], segments[1], segments[2]))
        try writeCheckpoint(checkpointHeader(SequenceNumber(9)), of: [], on: disk)
        let name = segments[index].name
        var sequences: [UInt64] = []
        let report = try inspect(UnreadableDisk(disk, name, goodReadCount: goodReadCount)) { record, _ in
            sequences.append(record.sequence.rawValue)
        }
        let all: [[UInt64]] = [[1, 2, 3, 4, 5], [6, 7], [8, 9, 10, 11]]
        #expect(sequences == all.indices.flatMap { $0 == index ? [] : all[$0] })
        #expect(report.problems.map(\.file) == [name], "\(report.problems)")
    }

    /// For any bytes the inspection ends, and reads no record that recovery would not.
    @Test(arguments: 0..<200 as Range<UInt64>)
    func inspectionNeverTraps(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var builder = Self.segment(1, through: 20)
        for _ in 0..<Int.random(in: 1...10, using: &random) {
            let offset = Int.random(in: 48..<builder.bytes.count, using: &random)
            builder.bytes[offset] = UInt8.random(in: 0...255, using: &random)
        }
        var sequences: [UInt64] = []
        let report = try inspect(SimulatedDisk(files: [firstSegment: builder.bytes])) { record, payload in
            sequences.append(record.sequence.rawValue)
            #expect(copy(of: payload) == [UInt8(record.sequence.rawValue)])
        }
        #expect(sequences == sequences.sorted())
        switch outcome(of: builder.bytes) {
        case .success(let entries):
            #expect(Self.payloads(entries).map(UInt64.init) == sequences)
            #expect(report.problems.allSatisfy { if case .tornTail = $0.flaw { true } else { false } })
        case .failure(.corrupt(let problem)):
            #expect(report.problems.first == problem)
        case .failure(let other):
            Issue.record("\(other)")
        }
    }
}
