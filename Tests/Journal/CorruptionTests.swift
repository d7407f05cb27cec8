import PandoBytes
import PandoJournal
import PandoSimulatedDisk
import Testing

/// The result of `recover` for a directory with these bytes in its first segment.
func outcome(of bytes: [UInt8]) -> Result<[Entry], JournalError> {
    outcome(of: [firstSegment: bytes])
}

func outcome(of files: [String: [UInt8]]) -> Result<[Entry], JournalError> {
    do throws(JournalError) {
        return .success(try recover(SimulatedDisk(files: files)).entries)
    } catch {
        return .failure(error)
    }
}

/// Builds segments that the writer never makes.
struct SegmentBuilder {
    var header = SegmentHeader(directory: testID, timeline: 1, firstSequence: SequenceNumber(1))
    var bytes: [UInt8]

    init(directory: DirectoryID = testID, timeline: UInt32 = 1, firstSequence: UInt64 = 1) {
        header = SegmentHeader(
            directory: directory, timeline: timeline, firstSequence: SequenceNumber(firstSequence))
        bytes = header.bytes
    }

    var name: String { SegmentName(timeline: header.timeline, firstSequence: header.firstSequence).text }

    /// Appends a record with a good checksum and any content.
    mutating func add(
        _ sequence: UInt64, durable: UInt64? = nil, kind: UInt16 = 1, flags: UInt16 = 3,
        payload: [UInt8] = Array("payload".utf8)
    ) {
        let start = bytes.count
        bytes.append(littleEndian: UInt32(0))
        bytes.append(littleEndian: UInt32(payload.count))
        bytes.append(littleEndian: kind)
        bytes.append(littleEndian: flags)
        bytes.append(littleEndian: UInt32(1))
        bytes.append(littleEndian: sequence)
        bytes.append(littleEndian: Int64(1000))
        bytes.append(littleEndian: durable ?? sequence &- 1)
        bytes += payload
        while bytes.count % 8 != 0 { bytes.append(0) }
        bytes.replace(littleEndian: slowCRC32C(bytes[(start + 4)...], continuing: header.seed), at: start)
    }
}

/// CRC-32C by the bit, from its definition.
func slowCRC32C(_ bytes: some Sequence<UInt8>, continuing seed: UInt32) -> UInt32 {
    var crc = ~seed
    for byte in bytes {
        crc ^= UInt32(byte)
        for _ in 0..<8 { crc = crc & 1 == 1 ? (crc >> 1) ^ 0x82F6_3B78 : crc >> 1 }
    }
    return ~crc
}

@Suite struct CorruptionTests {
    static let three = [Entry("first"), Entry("the second"), Entry("3")]

    /// Every bit of a journal of three records is flipped: it is always detected, with no wrong data and no
    /// trap.
    @Test(arguments: [true, false])
    func everyFlippedBitIsDetected(inOneBatch: Bool) throws {
        let disk = try makeDisk(inOneBatch ? [Self.three] : Self.three.map { [$0] })
        let whole = try #require(disk.contents[firstSegment])
        let secondRecord = 48 + 48, lastRecord = secondRecord + 56
        for offset in whole.indices {
            for bit in 0..<8 {
                var flipped = whole
                flipped[offset] ^= 1 << bit
                let context = Comment("byte \(offset), bit \(bit)")
                switch outcome(of: flipped) {
                case .success(let entries):
                    #expect(entries.count < 3, context)
                    #expect(Self.three.starts(with: entries), context)
                    #expect(
                        inOneBatch ? offset >= 48 : offset >= lastRecord, "promised, and given up: \(context)"
                    )
                case .failure(.corrupt(let problem)):
                    #expect(
                        offset < 48 || (!inOneBatch && offset < lastRecord), "a torn tail refused: \(context)"
                    )
                    #expect(problem.file == firstSegment)
                    #expect(
                        problem.byteOffset == (offset < 48 ? 0 : offset < secondRecord ? 48 : secondRecord),
                        context)
                case .failure(let other):
                    Issue.record("\(context): \(other)")
                }
            }
        }
    }

    /// Truncated anywhere: whole entries stay, and the journal can be continued.
    @Test func everyTruncationRecoversPrefix() throws {
        let disk = try makeDisk([Self.three])
        let whole = try #require(disk.contents[firstSegment])
        for length in 0...whole.count {
            let cut = SimulatedDisk(files: [firstSegment: Array(whole[..<length])])
            if length < JournalFormat.segmentHeaderByteCount {
                let flaw = JournalFlaw.headerCutShort(byteCount: length)
                #expect(
                    throws: JournalError.corrupt(
                        JournalProblem(file: firstSegment, byteOffset: 0, flaw: flaw))
                ) { try recover(cut) }
                continue
            }
            let (entries, summary) = try recover(cut)
            let expected = [96, 152, 200].filter { $0 <= length }
            #expect(entries == Array(Self.three[..<expected.count]), "length \(length)")
            // The torn bytes are counted up to the last one that is not zero.
            let end = expected.last ?? 48
            let torn = whole[end..<length].lastIndex { $0 != 0 }.map { $0 + 1 - end } ?? 0
            #expect(summary.tornByteCount == torn, "length \(length)")
            #expect(cut.contents[firstSegment]?.count == expected.last ?? 48)

            cut.killProcess()
            var scratch: [Entry] = []
            var journal = try openJournal(on: cut, entries: &scratch)
            try journal.append(entry: Entry("more").journalRecords)
            try journal.write()
            try journal.sync()
            cut.losePower(seed: 0)
            #expect(try recover(cut).entries == entries + [Entry("more")], "length \(length)")
        }
    }

    /// An entry of several records, torn between and inside them, is gone as a whole.
    @Test func incompleteEntryIsNotRead() throws {
        let pair = Entry([
            .init(kind: .delta, namespace: 1, timestamp: 1, payload: Array("write".utf8)),
            .init(kind: .delta, namespace: 2, timestamp: 1, payload: Array("another".utf8)),
            .init(kind: .onDisconnectCancelled, namespace: 1, timestamp: 1, payload: []),
        ])
        let disk = try makeDisk([[Entry("before")], [pair]])
        let whole = try #require(disk.contents[firstSegment])
        #expect(whole.count == 48 + 48 + 48 + 48 + 40)
        for length in 96..<whole.count {
            #expect(outcome(of: Array(whole[..<length])) == .success([Entry("before")]), "length \(length)")
        }
        for offset in 96..<whole.count {
            var flipped = whole
            flipped[offset] ^= 0x10
            #expect(outcome(of: flipped) == .success([Entry("before")]), "byte \(offset)")
        }
        #expect(outcome(of: whole) == .success([Entry("before"), pair]))
    }

    struct Case: CustomTestStringConvertible {
        let reason: String
        let offset: Int
        let flaw: JournalFlaw
        let build: @Sendable (inout SegmentBuilder) -> Void
        var testDescription: String { reason }

        init(
            _ reason: String, at offset: Int, _ flaw: JournalFlaw,
            _ build: @escaping @Sendable (inout SegmentBuilder) -> Void
        ) {
            (self.reason, self.offset, self.flaw, self.build) = (reason, offset, flaw, build)
        }
    }

    static let one = SequenceNumber(1), two = SequenceNumber(2), three3 = SequenceNumber(3)

    /// Good checksums, contradictory headers. Each record takes 48 bytes.
    @Test(arguments: [
        Case("a gap", at: 96, .sequenceGap(expected: two, found: three3)) {
            $0.add(1); $0.add(3, durable: 1)
        },
        Case("a repeat", at: 96, .sequenceRepeats(expected: two, found: one)) {
            $0.add(1); $0.add(1, durable: 0)
        },
        Case("does not begin where the header says", at: 48, .sequenceGap(expected: one, found: two)) {
            $0.add(2)
        },
        Case("a mark on itself", at: 48, .impossibleMark(one)) { $0.add(1, durable: 1) },
        Case("a mark from the future", at: 48, .impossibleMark(SequenceNumber(.max))) {
            $0.add(1, durable: .max)
        },
        Case("a mark that goes back", at: 144, .impossibleMark(.zero)) {
            $0.add(1); $0.add(2, durable: 1); $0.add(3, durable: 0)
        },
        Case("a mark inside its own entry", at: 96, .impossibleMark(one)) {
            $0.add(1, durable: 0, flags: 1); $0.add(2, durable: 1, flags: 2)
        },
        Case("a kind of the future", at: 48, .unknownKind(99)) { $0.add(1, kind: 99) },
        Case("no kind", at: 48, .unknownKind(0)) { $0.add(1, kind: 0) },
        Case("a flag of the future", at: 48, .unknownFlags(7)) { $0.add(1, flags: 7) },
        Case("begins twice", at: 96, .entryBeginsInsideEntry) {
            $0.add(1, durable: 0, flags: 1); $0.add(2, durable: 0, flags: 3)
        },
        Case("commits what never began", at: 48, .recordOutsideEntry) { $0.add(1, flags: 2) },
        Case(
            "damage behind which a mark vouches", at: 48,
            .damaged(.checksumMismatch, sequence: one, witness: two)
        ) {
            $0.add(1); $0.add(2); $0.bytes[90] ^= 1
        },
        Case(
            "a damaged length", at: 48,
            .damaged(.payloadTooLarge(byteCount: 0xFF00_0007), sequence: one, witness: two)
        ) {
            $0.add(1); $0.add(2); $0.bytes[55] = 0xFF
        },
        Case(
            "a damaged length that points behind the end", at: 48,
            .damaged(.cutShort, sequence: one, witness: two)
        ) {
            $0.add(1); $0.add(2); $0.bytes[54] = 1
        },
        Case(
            "the witness stands behind more damage", at: 48,
            .damaged(.checksumMismatch, sequence: one, witness: SequenceNumber(4))
        ) {
            for sequence in 1...4 as ClosedRange<UInt64> { $0.add(sequence, durable: sequence == 4 ? 1 : 0) }
            $0.bytes[90] ^= 1
        },
        Case(
            "the mark vouches for the entry whose second record is bad", at: 96,
            .damaged(.checksumMismatch, sequence: two, witness: three3)
        ) {
            $0.add(1, durable: 0, flags: 1); $0.add(2, durable: 0, flags: 2); $0.add(3, durable: 2)
            $0.bytes[96 + 41] ^= 1
        },
    ])
    func refuses(_ example: Case) {
        var builder = SegmentBuilder()
        example.build(&builder)
        let problem = JournalProblem(file: firstSegment, byteOffset: example.offset, flaw: example.flaw)
        #expect(outcome(of: builder.bytes) == .failure(.corrupt(problem)))
        let disk = SimulatedDisk(files: [firstSegment: builder.bytes])
        _ = try? recover(disk)
        #expect(disk.contents == [firstSegment: builder.bytes], "a refusal changed the file")
    }

    /// Later good records whose `durable` is before the bad one: the disk wrote them first, and nothing was
    /// acknowledged.
    @Test func outOfOrderWritesAreTornTail() throws {
        var builder = SegmentBuilder()
        builder.add(1)
        for sequence in 2...4 as ClosedRange<UInt64> { builder.add(sequence, durable: 1) }
        for offset in 96..<144 { builder.bytes[offset] = 0 }
        let disk = SimulatedDisk(files: [firstSegment: builder.bytes])
        let (entries, summary) = try recover(disk)
        #expect(entries.count == 1)
        #expect(summary.tornByteCount == 143, "three records, but for a zero at the end")
    }

    /// Bytes of a payload are not records: here a value that is the journal of another directory.
    @Test func journalInsidePayloadIsNoEvidence() throws {
        var inner = SegmentBuilder(directory: DirectoryID(1, 2))
        for sequence in 1...20 as ClosedRange<UInt64> { inner.add(sequence) }
        var builder = SegmentBuilder()
        builder.add(1)
        builder.add(2, payload: inner.bytes)
        builder.bytes[100] ^= 1
        #expect(outcome(of: builder.bytes).map(\.count) == .success(1))
    }

    /// A value of plausible headers only costs one pass; if there are too many, the journal is refused.
    @Test(arguments: [(count: 1000, isTangled: false), (count: 70_000, isTangled: true)])
    func plausibleHeadersEverywhereAreSearchedInLinearTime(count: Int, isTangled: Bool) {
        var payload: [UInt8] = []
        for index in 0..<count {
            payload.append(littleEndian: UInt32(7))
            payload.append(littleEndian: UInt32((count - index - 1) * 40))
            payload.append(littleEndian: UInt32(0x0003_0001))
            payload.append(littleEndian: UInt32(1))
            payload.append(littleEndian: UInt64(2))
            payload.append(littleEndian: UInt64(0))
            payload.append(littleEndian: UInt64(1))
        }
        var builder = SegmentBuilder()
        builder.bytes += [UInt8](repeating: 0, count: 40) + payload
        let refusal = JournalError.corrupt(
            JournalProblem(
                file: firstSegment, byteOffset: 48, flaw: .undecidable(.unwritten, sequence: Self.one))
        )
        #expect(outcome(of: builder.bytes) == (isTangled ? .failure(refusal) : .success([])))
    }

    /// A later record that proves damage, far away in another window of the reader, at every offset to its
    /// edge.
    @Test(arguments: [
        (1 << 20) - 48 - 88, (1 << 20) - 48 - 80, (1 << 20) - 56, (1 << 20) - 48, 1 << 20, 3 << 20,
    ])
    func evidenceFarAwayIsFound(payloadByteCount: Int) {
        var builder = SegmentBuilder()
        builder.add(1, payload: [UInt8](repeating: 0xAB, count: payloadByteCount))
        builder.add(2)
        builder.bytes[1000] ^= 1
        let flaw = JournalFlaw.damaged(.checksumMismatch, sequence: Self.one, witness: Self.two)
        #expect(
            outcome(of: builder.bytes)
                == .failure(.corrupt(JournalProblem(file: firstSegment, byteOffset: 48, flaw: flaw))))
    }

    @Test func entryRejectedByHostRefusesJournal() throws {
        let disk = try makeDisk([Self.three])
        let flaw = JournalFlaw.rejected(sequence: Self.two, reason: "no such path")
        #expect(throws: JournalError.corrupt(JournalProblem(file: firstSegment, byteOffset: 96, flaw: flaw)))
        {
            var host = History()
            host.rejected = Array("the second".utf8)
            _ = try Journal.open(on: disk, newDirectoryID: testID, into: &host)
        }
    }

    @Test func tooLargeEntryIsRefusedWithoutEffect() throws {
        let disk = SimulatedDisk()
        var none: [Entry] = []
        var journal = try openJournal(on: disk, entries: &none)
        let byteCount = JournalFormat.payloadByteLimit + 1
        let huge = [UInt8](repeating: 0, count: byteCount)
        var error: JournalError?
        do throws(JournalError) {
            try journal.append(.delta, namespace: 1, timestamp: 1, payload: huge)
        } catch let caught { error = caught }
        #expect(error == .entryTooLarge(byteCount: byteCount, byteLimit: JournalFormat.payloadByteLimit))
        let sequence = try journal.append(entry: Entry("small").journalRecords)
        #expect(sequence == Self.one)
        #expect(journal.pendingByteCount == 48)
    }
}
