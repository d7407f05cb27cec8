import PandoJournal
import PandoTime

/// Writes a snapshot as one file, a checkpoint or a backup, in steps between which others have the disk.
struct SnapshotWriter<Storage: Disk> {
    let disk: Storage
    /// Gives the file up, at its next record.
    let cancelled: CancellationFlag
    /// Leaves the disk to others for a time.
    let pause: (Duration) -> Void

    /// Bytes between two syncs, and two pauses: the journal's own syncs, on the same disk, may wait for as
    /// many.
    private static var syncByteCount: Int { 1 << 20 }
    /// A pause is this many times as long as the work before it: a snapshot takes a quarter of the disk's
    /// time at most, and the journal has the rest.
    private static var pausePerWork: Double { 3 }
    /// The longest pause, however slow the disk.
    private static var longestPause: Duration { .milliseconds(200) }

    /// Why there is no file.
    enum Interruption: Error {
        case disk(DiskFailure)
        case cancelled
    }

    /// Writes the file, syncs it, and gives it its name, which is durable then, too. O(bytes of the
    /// snapshot).
    /// - Parameters:
    ///   - name: Of the file; nil for that of a checkpoint.
    ///   - note: Gets every record that is written.
    /// - Throws: ``Interruption``; then there is no such file.
    func write(
        _ job: CheckpointJob, named name: String? = nil,
        note: (RecordKind, _ namespace: UInt32, _ payload: [UInt8]) -> Void = { _, _, _ in }
    ) throws(Interruption) -> (byteCount: Int, recordCount: Int) {
        var writer: CheckpointWriter<Storage>
        do throws(DiskFailure) {
            writer = try CheckpointWriter(
                job.header, on: disk, syncByteCount: Self.syncByteCount, named: name)
        } catch {
            throw .disk(error)
        }
        var (pausedAt, began) = (0, MonotonicTime.now)
        do throws(Interruption) {
            try job.snapshot.forEachRecord { kind, namespace, payload throws(Interruption) in
                if cancelled.isSet { throw .cancelled }
                do throws(DiskFailure) {
                    try writer.append(kind, namespace: namespace, payload: payload.rawSpan)
                } catch {
                    throw .disk(error)
                }
                note(kind, namespace, payload)
                if writer.byteCount - pausedAt >= Self.syncByteCount {
                    pause(min((.now - began) * Self.pausePerWork, Self.longestPause))
                    (pausedAt, began) = (writer.byteCount, .now)
                }
            }
        } catch {
            // A file that cannot be removed now is removed by the next start.
            try? writer.abandon()
            throw error
        }
        do throws(DiskFailure) { return try writer.finish() } catch { throw .disk(error) }
    }
}
