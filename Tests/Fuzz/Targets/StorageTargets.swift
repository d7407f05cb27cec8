import PandoBytes
import PandoJournal
import PandoSimulatedDisk
import PandoStorage

//  input    0 │ the bytes of a file
//           1… │ records: kind (1) │ namespace (1) │ size (2, little-endian) │ payload

private let directory = DirectoryID(1, 2)
private let segment = "journal-00000001-0000000000000001.log"

// MARK: - Journal

/// A segment of any bytes, and records of any payload with good checksums: recovery refuses them, or gives a
/// state that is the same when it is recovered again and when it is restored from its own snapshot.
@Sendable func checkJournal(_ input: [UInt8]) throws {
    var reader = InputReader(input)
    let disk: SimulatedDisk
    if reader.byte() == 0 {
        disk = SimulatedDisk(files: [segment: reader.remainder()])
    } else {
        disk = SimulatedDisk()
        do throws(JournalError) {
            var none = RecoveredState(access: .open)
            var journal = try Journal.open(on: disk, newDirectoryID: directory, into: &none)
            for record in records(&reader) { _ = try journal.append(entry: [record]) }
            try journal.write()
            try journal.sync()
        } catch {
            throw FuzzFailure(description: "records cannot be written: \(error)")
        }
    }
    try check(disk)
}

/// Recovers twice: the first recovery may cut a torn end off.
private func check(_ disk: SimulatedDisk) throws {
    guard let first = recover(disk) else { return }
    guard let second = recover(disk) else { throw FuzzFailure(description: "it cannot be recovered again") }
    try compare(first, second, "recovered again")
    var restored = RecoveredState(access: .open)
    do throws(UnreadableEntry) {
        try first.snapshot.forEachRecord { kind, namespace, payload throws(UnreadableEntry) in
            do { try restored.replay(kind, namespace: namespace, time: 0, payload: payload.rawSpan) } catch {
                throw UnreadableEntry(reason: "\(error)")
            }
        }
    } catch {
        throw FuzzFailure(description: "its snapshot cannot be restored: \(error.reason)")
    }
    try compare(first, restored, "restored from its snapshot")
    for database in first.databases.values { _ = database.engine.checkInvariants() }
}

private struct UnreadableEntry: Error {
    var reason: String
}

private func recover(_ disk: SimulatedDisk) -> RecoveredState? {
    var state = RecoveredState(access: .open)
    disk.killProcess()
    do throws(JournalError) {
        _ = try Journal.open(on: disk, newDirectoryID: directory, into: &state)
        return state
    } catch {
        return nil
    }
}

private func compare(_ one: RecoveredState, _ other: RecoveredState, _ text: String) throws {
    try require(one.databases.keys.sorted() == other.databases.keys.sorted(), "other databases, \(text)")
    for (id, database) in one.databases {
        let copy = other.databases[id]
        try require(copy?.name == database.name, "another name, \(text)")
        try require(copy?.engine.root == database.engine.root, "other data, \(text)")
        try require(
            copy?.engine.sessionsWithQueue == database.engine.sessionsWithQueue,
            "other onDisconnect writes, \(text)")
    }
}

/// The records that the rest of an input describes.
private func records(_ reader: inout InputReader) -> [JournalRecord] {
    var records: [JournalRecord] = []
    while !reader.isAtEnd, records.count < 64 {
        let kind = RecordKind.allCases[reader.byte() % RecordKind.allCases.count]
        let namespace = UInt32(reader.byte() % 4)
        let count = reader.byte() | reader.byte() << 8
        records.append(
            JournalRecord(
                kind, namespace: namespace, timestamp: Int64(records.count), payload: reader.bytes(count)))
    }
    return records
}

// MARK: - Checkpoint

/// The same of a checkpoint, beside an older one that is good: recovery uses one of them, and never a part of
/// one.
@Sendable func checkCheckpoint(_ input: [UInt8]) throws {
    var reader = InputReader(input)
    let header = CheckpointHeader(
        directory: directory, timeline: 1, sequence: SequenceNumber(1), timestamp: 1, beginsJournal: true)
    let disk = SimulatedDisk()
    if reader.byte() == 0 {
        disk.add(header.name.text, reader.remainder())
    } else {
        do throws(DiskFailure) {
            var writer = try CheckpointWriter(header, on: disk)
            for record in records(&reader) {
                try writer.append(record.kind, namespace: record.namespace, payload: record.payload.rawSpan)
            }
            _ = try writer.finish()
        } catch {
            throw FuzzFailure(description: "a checkpoint cannot be written: \(error)")
        }
    }
    try check(disk)
}
