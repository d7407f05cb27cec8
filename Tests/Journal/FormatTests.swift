import PandoBytes
import PandoJournal
import PandoSimulatedDisk
import Testing

/// The bytes on disk, made by another program (a few lines of Python after the drawing in
/// `JournalFormat.swift`). If this test fails, old data directories can no longer be read: raise the version
/// and keep the old reader.
@Suite struct FormatTests {
    static let golden = bytes(
        // header: "PNDOJRN1", version 1, directory 00…0f, timeline 1, first sequence 1
        "504e444f4a524e3101000000000102030405060708090a0b",
        "0c0d0e0f010000000100000000000000000000009668edfc",
        // delta, begin+commit, namespace 1, sequence 1, durable 0: "hello"
        "7915a3e70500000001000300010000000100000000000000",
        "0068e5cf8b010000000000000000000068656c6c6f000000",
        // delta, begin, namespace 0xabcd, sequence 2, durable 1: "12345678"
        "9854fa800800000001000100cdab00000200000000000000",
        "0168e5cf8b01000001000000000000003132333435363738",
        // onDisconnectCancelled, commit, sequence 3, durable 1, empty
        "69bb26510000000007000200cdab00000300000000000000",
        "0168e5cf8b0100000100000000000000"
    )

    static let entries: [Entry] = [
        Entry([.init(kind: .delta, namespace: 1, timestamp: 1_700_000_000_000, payload: Array("hello".utf8))]
        ),
        Entry([
            .init(
                kind: .delta, namespace: 0xABCD, timestamp: 1_700_000_000_001, payload: Array("12345678".utf8)
            ),
            .init(kind: .onDisconnectCancelled, namespace: 0xABCD, timestamp: 1_700_000_000_001, payload: []),
        ]),
    ]

    @Test func writesTheGoldenBytes() throws {
        let disk = try makeDisk(Self.entries.map { [$0] })
        #expect(disk.fileNames == [firstSegment])
        #expect(disk.contents[firstSegment] == Self.golden)
    }

    @Test func readsTheGoldenBytes() throws {
        let disk = SimulatedDisk(files: [firstSegment: Self.golden])
        let (entries, summary) = try recover(disk)
        #expect(entries == Self.entries)
        #expect(summary.recordCount == 3)
        #expect(summary.lastSequence == SequenceNumber(3))
        #expect(summary.tornByteCount == 0)
    }

    @Test func kindNumbersAreStable() {
        let names: [UInt16: String] = [
            1: "delta", 2: "rules", 3: "settings", 4: "namespaceMade", 5: "namespaceDeleted",
            6: "onDisconnectRegistered", 7: "onDisconnectCancelled", 8: "tree", 9: "authoredDelta",
            10: "publishedRules",
        ]
        for kind in RecordKind.allCases { #expect(names[kind.rawValue] == "\(kind)") }
        #expect(RecordKind.allCases.count == names.count)
    }

    @Test(arguments: [
        // name                                       why it is invalid
        ("journal-00000001-1.log", "the sequence has 16 digits"),
        ("journal-00000001-000000000000000G.log", "hexadecimal ends at f"),
        ("journal-00000001-000000000000000A.log", "capital letters: one file has one name"),
        ("journal-00000001-+000000000000001.log", "no signs"),
        ("journal-1.log", "the timeline is missing"),
        ("journal-00000001-0000000000000001.log.bak", "a copy"),
        ("checkpoint-00000001-0000000000000001", "not ours"),
        ("journal-.log", "nothing in it"),
        ("journal-", "nothing in it"),
    ])
    func refusesOtherNames(name: String, reason: String) {
        #expect(SegmentName(name) == nil, "\(reason)")
    }

    @Test func namesSortInJournalOrder() {
        let a = SegmentName(timeline: 1, firstSequence: SequenceNumber(0xFF))
        let b = SegmentName(timeline: 1, firstSequence: SequenceNumber(0x100))
        let c = SegmentName(timeline: 0x10, firstSequence: SequenceNumber(1))
        #expect([c, b, a].sorted() == [a, b, c])
        #expect([c, b, a].map(\.text).sorted() == [a, b, c].map(\.text))
        #expect(SegmentName(b.text) == b)
    }
}

/// Hexadecimal lines as bytes.
func bytes(_ lines: String...) -> [UInt8] {
    let digits = lines.joined().compactMap(\.hexDigitValue)
    return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
}
