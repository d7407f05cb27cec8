import Glibc
import PandoBytes
import PandoJournal
import PandoSimulatedDisk
import Testing

@testable import PandoStorage

/// A checkpoint written by two threads is the one that one thread writes, or none at all.
@Suite struct CheckpointPipeTests {
    static let header = CheckpointHeader(
        directory: DirectoryID(1, 2), timeline: 1, sequence: SequenceNumber(7), timestamp: 1_700_000_000_000,
        beginsJournal: true)
    /// More blocks than may wait, of several records and of one.
    static let payloads = (0..<12).map {
        [UInt8](repeating: UInt8($0), count: $0 % 3 == 0 ? 300_000 : 900_000)
    }

    static func write(on disk: SimulatedDisk) throws(JournalError) {
        var pipe: CheckpointPipe<SimulatedDisk>
        do throws(DiskFailure) {
            pipe = try CheckpointPipe(header, on: disk, syncByteCount: 3 << 20)
        } catch {
            throw .disk(error)
        }
        do throws(DiskFailure) {
            for payload in payloads { try pipe.append(.tree, namespace: 1, payload: payload.rawSpan) }
        } catch {
            try? pipe.abandon()
            throw .disk(error)
        }
        try pipe.finish()
    }

    @Test func isTheSameFile() throws {
        let (piped, plain) = (SimulatedDisk(), SimulatedDisk())
        try Self.write(on: piped)
        var writer = try CheckpointWriter(Self.header, on: plain)
        for payload in Self.payloads { try writer.append(.tree, namespace: 1, payload: payload.rawSpan) }
        _ = try writer.finish()
        #expect(piped.contents == plain.contents)
        #expect(Array(piped.contents.keys) == [Self.header.name.text])
    }

    /// Any failed call of the disk is thrown, and a file with the checkpoint's name is complete.
    @Test func everyFailureIsThrown() throws {
        let good = SimulatedDisk()
        try Self.write(on: good)
        #expect(good.operationCount > 10, "opening, blocks, syncs, the name")
        for operation in 0..<good.operationCount {
            let disk = SimulatedDisk(failing: operation)
            #expect(throws: JournalError.self, "call \(operation)") { try Self.write(on: disk) }
            let named = disk.contents[Self.header.name.text]
            #expect(named == nil || named == good.contents[Self.header.name.text], "call \(operation)")
            #expect(disk.contents.count <= 1)
        }
    }

    @Test func abandonedCheckpointIsRemoved() throws {
        let disk = SimulatedDisk()
        var pipe = try CheckpointPipe(Self.header, on: disk)
        for payload in Self.payloads { try pipe.append(.tree, namespace: 1, payload: payload.rawSpan) }
        try pipe.abandon()
        #expect(disk.contents.isEmpty)
    }

    /// A power cut before any call: a file with the checkpoint's name is complete, and it is there if it was
    /// reported durable.
    @Test func powerCutsLeaveAllOrNothing() throws {
        let good = SimulatedDisk()
        try Self.write(on: good)
        let whole = good.contents[Self.header.name.text]
        for crashPoint in 0...good.operationCount {
            let disk = SimulatedDisk(crashingBefore: crashPoint)
            let isPromised = (try? Self.write(on: disk)) != nil
            disk.losePower(seed: UInt64(crashPoint))
            let named = disk.contents[Self.header.name.text]
            #expect(named == nil || named == whole, "before call \(crashPoint)")
            #expect(!isPromised || named == whole, "before call \(crashPoint)")
        }
    }

    /// The blocks are made faster than they are written: the encoder waits, and is woken again and again.
    @Test func slowDiskHoldsTheEncoderBack() throws {
        let (slow, plain) = (SimulatedDisk(), SimulatedDisk())
        slow.onOperation = { operation in
            if operation == .write { usleep(2000) }
            return .succeed
        }
        try Self.write(on: slow)
        try Self.write(on: plain)
        #expect(slow.contents == plain.contents)
    }

    /// The disk fails while the encoder waits for room.
    @Test func failureWakesTheWaitingEncoder() throws {
        let disk = SimulatedDisk()
        var writeCount = 0
        disk.onOperation = { operation in
            guard operation == .write else { return .succeed }
            usleep(2000)
            writeCount += 1
            return writeCount == 4 ? .fail(28) : .succeed
        }
        #expect(throws: JournalError.self) { try Self.write(on: disk) }
        #expect(disk.contents.isEmpty)
    }
}
