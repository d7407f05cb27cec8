import PandoBytes
import PandoJournal
import PandoSimulatedDisk
import Testing

/// Segments that were filled with zeros in advance: the zeros that are left are no part of the journal.
@Suite struct PreparedSegmentTests {
    static let three = SegmentTests.segment(1, through: 3)

    static func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }

    /// A journal on a segment that was prepared.
    static func preparedJournal(
        on disk: SimulatedDisk, _ segmentByteLimit: Int
    ) throws -> Journal<SimulatedDisk> {
        var none: [Entry] = []
        var journal = try openJournal(on: disk, options: smallOptions(segmentByteLimit), entries: &none)
        try Self.append("begins", to: &journal)
        let filler = String(repeating: "x", count: segmentByteLimit / 32)
        while !journal.wantsPreparedSegment { try Self.append(filler, to: &journal) }
        try #require(try PreparedSegment.make(byteCount: segmentByteLimit, on: disk, isAbandoned: { false }))
        journal.usePreparedSegment(byteCount: segmentByteLimit)
        let count = journal.segmentCount
        while journal.segmentCount == count { try Self.append(filler, to: &journal) }
        return journal
    }

    static func append(_ text: String, to journal: inout Journal<SimulatedDisk>) throws {
        try journal.append(entry: Entry(text).journalRecords)
        try journal.write()
        try journal.sync()
    }

    // MARK: Reading

    @Test(arguments: [1, 7, 8, 39, 40, 41, 4096, 2 << 20, (3 << 20) + 8])
    func zerosAtEndOfLastSegmentAreItsEnd(count: Int) throws {
        let disk = SimulatedDisk(files: [firstSegment: Self.three.bytes + Self.zeros(count)])
        #expect(try inspect(disk) { _, _ in }.problems.isEmpty)
        var history = History()
        let seen = try readDirectory(disk, into: &history)
        #expect(SegmentTests.payloads(history.entries) == [1, 2, 3] && seen.tornByteCount == 0)

        let (entries, summary) = try recover(disk)
        #expect(SegmentTests.payloads(entries) == [1, 2, 3])
        #expect(summary.tornByteCount == 0 && summary.unfilledByteCount == count)
        #expect(disk.contents[firstSegment] == Self.three.bytes, "what is appended comes right behind")
    }

    /// Zeros end only the last segment: the others were full when the next one was begun.
    @Test func zerosBeforeAnotherSegmentAreDamage() {
        var first = Self.three
        first.bytes += Self.zeros(500)
        let files = SegmentTests.files(first, SegmentTests.segment(4, through: 5))
        let problem = JournalProblem(
            file: firstSegment, byteOffset: Self.three.bytes.count,
            flaw: .damaged(.unwritten, sequence: SequenceNumber(4), witness: SequenceNumber(4)))
        #expect(outcome(of: files) == .failure(.corrupt(problem)))
        #expect((try? inspect(SimulatedDisk(files: files)) { _, _ in }.problems) == [problem])
    }

    /// A power cut has left only the beginning of a write: the torn bytes are counted without the zeros
    /// behind them.
    @Test(arguments: [1, 20, 40])
    func tornRecordBeforeZerosIsTruncated(keptCount: Int) throws {
        let whole = SegmentTests.segment(1, through: 4).bytes
        let torn = Array(whole[..<(Self.three.bytes.count + keptCount)]) + Self.zeros(1000)
        let disk = SimulatedDisk(files: [firstSegment: torn])
        let report = try inspect(disk) { _, _ in }
        guard case .tornTail(let byteCount)? = report.problems.first?.flaw else {
            Issue.record("\(report.problems)")
            return
        }
        #expect((1...keptCount).contains(byteCount))
        let (entries, summary) = try recover(disk)
        #expect(SegmentTests.payloads(entries) == [1, 2, 3] && summary.tornByteCount == byteCount)
    }

    /// Zeros where a durable record must be are damage.
    @Test func zerosBeforeARecordAreDamage() {
        var bytes = Self.three.bytes
        bytes.replaceSubrange(96..<144, with: Self.zeros(48))
        let problem = JournalProblem(
            file: firstSegment, byteOffset: 96,
            flaw: .damaged(.unwritten, sequence: SequenceNumber(2), witness: SequenceNumber(3)))
        #expect(outcome(of: bytes) == .failure(.corrupt(problem)))
    }

    /// In one segment of 2^32 the checksum of a header of zeros is zero: it is no record there either.
    @Test func zerosAreNotReadAsARecord() throws {
        func checksum(_ bits: UInt64) -> UInt32 {
            let header = SegmentHeader(
                directory: DirectoryID(bits, 0), timeline: 1, firstSequence: SequenceNumber(1))
            return slowCRC32C(Self.zeros(36), continuing: header.seed)
        }
        // Checksums are linear: which bits of the id make it zero is a system of 32 equations.
        var rows = (0..<64).map { (bits: UInt64(1) << $0, value: checksum(1 << $0) ^ checksum(0)) }
        var bits: UInt64 = 0
        var target = checksum(0)
        for bit in 0..<32 as Range<UInt32> {
            guard let index = rows.firstIndex(where: { $0.value >> bit & 1 == 1 }) else { continue }
            let row = rows.remove(at: index)
            for other in rows.indices where rows[other].value >> bit & 1 == 1 {
                rows[other] = (rows[other].bits ^ row.bits, rows[other].value ^ row.value)
            }
            if target >> bit & 1 == 1 { (bits, target) = (bits ^ row.bits, target ^ row.value) }
        }
        try #require(checksum(bits) == 0)
        let segment = SegmentTests.segment(1, through: 3, directory: DirectoryID(bits, 0))
        #expect(
            outcome(of: segment.bytes + Self.zeros(400)).map(SegmentTests.payloads) == .success([1, 2, 3]))
    }

    // MARK: Writing

    /// A write into a prepared segment reserves no space, and does not make the file longer.
    @Test func preparedSegmentIsUsedUnchanged() throws {
        let disk = SimulatedDisk()
        var journal = try Self.preparedJournal(on: disk, 8192)
        #expect(disk.contents[journal.segmentName]?.count == 8192)
        #expect(!disk.fileNames.contains { $0.hasSuffix(".new") })
        let start = disk.operations.count
        let headroom = journal.reservedByteCount
        #expect(headroom > 7000)
        let isReserved = try journal.reserve(5000)
        #expect(isReserved)
        try Self.append("one more", to: &journal)
        #expect(disk.operations[start...] == [.write, .sync])
        #expect(disk.contents[journal.segmentName]?.count == 8192)

        let entryCount = try inspect(disk) { _, _ in }.entryCount
        disk.losePower(seed: 1)
        #expect(try recover(disk).entries.count == entryCount)
    }

    /// The system calls of a rotation into it, in the order that a power cut requires.
    @Test func preparedSegmentSystemCallsAreInOrder() throws {
        let disk = SimulatedDisk()
        var none: [Entry] = []
        var journal = try openJournal(on: disk, options: smallOptions(60), entries: &none)
        try Self.append("one, and the segment is full", to: &journal)
        _ = try journal.reserve(400)
        try #require(try PreparedSegment.make(byteCount: 300, on: disk, isAbandoned: { false }))
        journal.usePreparedSegment(byteCount: 300)
        let start = disk.operations.count
        try journal.append(entry: Entry("two").journalRecords)
        try journal.write()
        #expect(
            disk.operations[start...] == [
                // Space beyond the prepared bytes, since more was promised.
                .open, .reserve, .write, .sync, .rename, .syncDirectory, .truncate, .write,
            ])
        #expect(journal.reservedByteCount > 300)
    }

    /// On a full disk the prepared segment is removed; a missing file of it is no error.
    @Test func preparedSegmentIsRemovedOnFullDisk() throws {
        let disk = SimulatedDisk()
        var none: [Entry] = []
        var journal = try openJournal(on: disk, options: smallOptions(4096), entries: &none)
        try #require(try PreparedSegment.make(byteCount: 4096, on: disk, isAbandoned: { false }))
        journal.usePreparedSegment(byteCount: 4096)
        disk.capacity = disk.usedByteCount
        let isReserved = try journal.reserve(3000)
        #expect(isReserved, "the space of the prepared file is used")
        #expect(!disk.fileNames.contains { $0.hasSuffix(".new") })

        disk.capacity = .max
        // A reservation, a rotation and a stop find it missing.
        for use in 0..<3 {
            try #require(try PreparedSegment.make(byteCount: 4096, on: disk, isAbandoned: { false }))
            journal.usePreparedSegment(byteCount: 4096)
            try disk.remove("journal-prepared.log.new")
            switch use {
            case 0:
                let left = journal.reservedByteCount
                disk.capacity = disk.usedByteCount
                let isReserved = try journal.reserve(left + 1)
                #expect(!isReserved)
                disk.capacity = .max
            case 1:
                let count = journal.segmentCount
                for index in 0..<200 { try Self.append("entry \(index)", to: &journal) }
                #expect(journal.segmentCount > count && journal.usedPreparedCount == 0)
            default: try journal.releaseReservation()
            }
        }
        #expect(disk.usedByteCount == disk.contents.values.reduce(0) { $0 + $1.count }, "no room is held")
        disk.killProcess()
        #expect(try recover(disk).entries.count == 200)

        // The thread that prepares it finds it missing, too.
        let isThere = try PreparedSegment.make(byteCount: 1000, on: disk) {
            try? disk.remove("journal-prepared.log.new")
            return true
        }
        #expect(!isThere)
    }

    /// Without space, or cancelled: no file is left.
    @Test func failedPreparationLeavesNoFile() throws {
        let disk = SimulatedDisk()
        disk.capacity = 1000
        #expect(try !PreparedSegment.make(byteCount: 1001, on: disk, isAbandoned: { false }))
        #expect(disk.fileNames.isEmpty)
        var steps = 0
        let isThere = try PreparedSegment.make(byteCount: 1000, on: disk) {
            steps += 1
            return true
        }
        #expect(!isThere && steps == 1 && disk.fileNames.isEmpty)

        disk.lacksDescriptors = true
        var shortages: [DiskFailure] = []
        let isMade = try PreparedSegment.make(
            byteCount: 1000, on: disk, noteShortage: { shortages.append($0) }, isAbandoned: { false })
        #expect(!isMade && disk.fileNames.isEmpty)
        #expect(shortages.map(\.errorNumber) == [SimulatedDisk.noDescriptor])
    }

    /// A prepared file that cannot be opened for want of a descriptor stays, and a later rotation uses it.
    @Test func preparedSegmentIsUsedOnceDescriptorsAreFree() throws {
        let disk = SimulatedDisk()
        var none: [Entry] = []
        var journal = try openJournal(on: disk, options: smallOptions(4096), entries: &none)
        try #require(try PreparedSegment.make(byteCount: 4096, on: disk, isAbandoned: { false }))
        journal.usePreparedSegment(byteCount: 4096)
        disk.lacksDescriptors = true
        for index in 0..<100 { try Self.append("entry \(index)", to: &journal) }
        #expect(journal.segmentCount == 1 && !journal.wantsPreparedSegment)
        disk.lacksDescriptors = false
        for index in 100..<120 { try Self.append("entry \(index)", to: &journal) }
        #expect(journal.segmentCount == 2 && journal.usedPreparedCount == 1)
        disk.losePower(seed: 1)
        #expect(try recover(disk).entries.count == 120)
    }

    // MARK: Beside a server

    /// A segment of more than one read, with space to write more than one read.
    static let twoReads = 2 << 20

    /// The readers that may run beside a server: how many entries each finds, without a problem.
    static let readers: [@Sendable (SimulatedDisk) throws -> Int] = [
        { disk in
            let report = try inspect(disk) { _, _ in }
            #expect(report.problems.isEmpty)
            return report.entryCount
        },
        { disk in
            var history = History()
            let summary = try readDirectory(disk, into: &history)
            #expect(summary.tornByteCount == 0)
            return history.entries.count
        },
        { disk in
            let copy = SimulatedDisk()
            _ = try copyJournal(of: disk, to: copy) { _ in }
            return try recover(copy).entries.count
        },
    ]

    /// A disk that calls a closure before one of its reads, and counts the reads.
    static func disturb(
        _ disk: SimulatedDisk, beforeRead moment: Int, _ body: @escaping () -> Void
    ) -> () -> Int {
        var readCount = 0
        disk.onOperation = { operation in
            guard operation == .read else { return .succeed }
            readCount += 1
            if readCount == moment { body() }
            return .succeed
        }
        return {
            disk.onOperation = nil
            return readCount
        }
    }

    /// A reader beside a server may see zeros, and behind them records that were written since: that is no
    /// damage. It reads or copies the state of one moment.
    @Test(arguments: 0..<readers.count)
    func readingWhileServerWrites(reader: Int) throws {
        var readCount = Int.max
        var moment = 0
        var foundCounts: Set<Int> = []
        while moment < readCount {
            moment += 1
            let disk = SimulatedDisk()
            // More is written between two reads than one read returns, so that the next one begins behind
            // zeros.
            var journal = try Self.preparedJournal(on: disk, Self.twoReads)
            let before = try inspect(disk) { _, _ in }.entryCount
            let finish = Self.disturb(disk, beforeRead: moment) {
                for index in 0..<7 {
                    let payload = [UInt8](repeating: 7, count: 120 << 10)
                    let record = Entry.Record(kind: .delta, namespace: 1, timestamp: 1, payload: payload)
                    let entry = Entry(Array(repeating: record, count: index % 3 + 1))
                    guard (try? journal.append(entry: entry.journalRecords)) != nil,
                        (try? journal.write()) != nil,
                        (try? journal.sync()) != nil
                    else {
                        Issue.record("nothing is written")
                        return
                    }
                }
            }
            let found = try Self.readers[reader](disk)
            readCount = finish()
            #expect(found == before || found == before + 7, "writing before read \(moment)")
            foundCounts.insert(found - before)
        }
        #expect(
            foundCounts == [0, 7], "some readers found the new entries, and some had read that part before")
        #expect(moment > 3)
    }

    /// A server that stops truncates the zeros, also right after a write, while another process reads the
    /// file.
    @Test(arguments: [(0, 0), (0, 3), (1, 3), (2, 3)])
    func readingWhileServerStops(reader: Int, recordCount: Int) throws {
        var readCount = Int.max
        var moment = 0
        while moment < readCount {
            moment += 1
            let disk = SimulatedDisk()
            var journal = try Self.preparedJournal(on: disk, Self.twoReads)
            let before = try inspect(disk) { _, _ in }.entryCount
            let finish = Self.disturb(disk, beforeRead: moment) {
                if recordCount > 0 {
                    let record = Entry.Record(kind: .delta, namespace: 1, timestamp: 1, payload: [1, 2, 3])
                    _ = try? journal.append(
                        entry: Entry(Array(repeating: record, count: recordCount)).journalRecords)
                    try? journal.write()
                    try? journal.sync()
                }
                try? journal.releaseReservation()
            }
            let found = try Self.readers[reader](disk)
            readCount = finish()
            #expect(found == before || found == before + 1, "the stop comes before read \(moment)")
        }
        #expect(moment > 3)
    }

    /// A read that returns less than the file has is an error, and not the end of the journal.
    @Test func shortReadIsNotTheEndOfTheJournal() throws {
        let disk = SimulatedDisk()
        _ = try Self.preparedJournal(on: disk, 64 << 10)
        disk.killProcess()
        let count = disk.operationCount
        _ = try? recover(disk)
        let readings = disk.operationCount - count
        for index in 0..<readings {
            disk.killProcess()
            let before = try inspect(disk) { _, _ in }.entryCount
            var operation = 0
            disk.onOperation = { _ in
                defer { operation += 1 }
                return operation == index ? .readHalf : .succeed
            }
            if let (entries, _) = try? recover(disk) {
                #expect(entries.count == before, "operation \(index)")
            }
            disk.onOperation = nil
        }
    }

    /// Whatever fails while a file is made: it is not left behind. On a full disk each attempt would leave
    /// another one.
    @Test func filesThatCannotBeFinishedAreRemoved() throws {
        let disk = SimulatedDisk()
        var none: [Entry] = []
        let options = smallOptions(300)
        var journal = try openJournal(on: disk, options: options, entries: &none)
        var refusedCount = 0
        for refused in [DiskOperation.reserve, .write, .rename] {
            disk.onOperation = { [unowned disk] operation in
                // No space for anything but the segment that is there.
                guard operation == refused, disk.fileNames.contains(where: { $0.hasSuffix(".new") }) else {
                    return .succeed
                }
                refusedCount += 1
                return .fail(28)
            }
            let count = refusedCount
            for number in 0..<20 {
                try journal.append(entry: Entry("entry \(number)").journalRecords)
                try journal.write()
                try journal.sync()
            }
            #expect(refusedCount > count && journal.postponedRotation != nil)
            #expect(disk.fileNames == [firstSegment])
        }
        disk.onOperation = { $0 == .write ? .fail(28) : .succeed }
        #expect(throws: DiskFailure.self) {
            _ = try CheckpointWriter(checkpointHeader(SequenceNumber(1)), on: disk)
        }
        #expect(throws: DiskFailure.self) { try replaceSmallFile("small", with: [1], on: disk) }
        disk.onOperation = { $0 == .rename ? .fail(28) : .succeed }
        #expect(throws: DiskFailure.self) {
            try writeCheckpoint(checkpointHeader(SequenceNumber(1)), of: [], on: disk)
        }
        #expect(disk.fileNames == [firstSegment])
    }
}
