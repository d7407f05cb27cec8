/// A checkpoint that is written and durable, and has not its name yet: of an import or a restore, which takes
/// effect with the name.
///
///     let checkpoint = UnnamedCheckpoint(header, on: disk)   // a CheckpointFile has written it
///     try checkpoint.verify { … }                            // every byte is read once more
///     try checkpoint.publish()                               // now it counts
///
/// When either call throws, the file is removed, unless the error is ``JournalError/nameNotDurable``.
package struct UnnamedCheckpoint<Storage: Disk> {
    private let header: CheckpointHeader
    private let disk: Storage

    /// - Parameter header: As the checkpoint was written with.
    package init(_ header: CheckpointHeader, on disk: Storage) {
        self.header = header
        self.disk = disk
    }

    private var name: String { header.name.text }
    private var unfinishedName: String { name + CheckpointName.unfinishedEnd }

    /// Reads every byte, from the disk where the system can (``Disk/dropCache(of:)``), and compares the
    /// checksums. Until the name is given, the data from before is there:
    /// later it is not, so what the disk or the memory has changed must be found now.
    /// - Parameter progress: Called after each block with the bytes read so far.
    /// - Throws: ``JournalError/writtenDamaged(_:)``, ``JournalError/disk(_:)``.
    /// - Complexity: One sequential read, in the memory of one block.
    package func verify(progress: (_ byteCount: Int) -> Void) throws(JournalError) {
        do throws(JournalError) {
            var reader = try CheckpointReader.open(fileNamed: unfinishedName, on: disk, fromDisk: true)
            guard reader.header == header else {
                let flaw = JournalFlaw.checkpointHeaderDamaged
                throw JournalError.corrupt(
                    JournalProblem(file: unfinishedName, byteOffset: 0, flaw: flaw))
            }
            while try reader.readBlock({ _, _ throws(EntryRejection) in }) { progress(reader.offset) }
        } catch {
            // If that fails, the next start removes the file.
            try? disk.remove(unfinishedName)
            if case .corrupt(let problem) = error { throw .writtenDamaged(problem) }
            throw error
        }
    }

    /// Gives the file its name, durably.
    /// - Throws: ``JournalError/disk(_:)``; ``JournalError/nameNotDurable(file:_:)`` where the file has its
    ///   name, so that the next start uses it.
    package func publish() throws(JournalError) {
        do throws(DiskFailure) {
            try disk.rename(unfinishedName, to: name)
        } catch {
            try? disk.remove(unfinishedName)
            throw .disk(error)
        }
        do throws(DiskFailure) {
            try disk.syncDirectory()
        } catch {
            throw .nameNotDurable(file: disk.directory + "/" + name, error)
        }
    }
}
