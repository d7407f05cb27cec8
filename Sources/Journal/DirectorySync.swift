/// Makes the journal of a directory durable as far as it can be read now, from outside of the process that
/// writes it.
///
/// A reader of a directory sees records before the sync of the server that writes them. Such a record was not
/// acknowledged, and a power cut may take it; the server then gives its sequence to another one. So whatever
/// keeps what it has read, such as a backup, calls this behind the reading: what it has read stays.
///
/// - Parameter last: The last segment that was read; nil for none. Those before it are on disk: a segment
///   exists only after every record before it was synced. Where it was removed meanwhile, the checkpoint that
///   made it superfluous is durable.
/// - Throws: ``DiskFailure`` where a sync fails; not on a file system without syncs.
func syncJournal<Storage: Disk>(of disk: Storage, upTo last: SegmentName?) throws(DiskFailure) {
    try syncFiles(last.map { [$0.text] } ?? [], of: disk, except: \.isMissing)
    try ifSupported { () throws(DiskFailure) in try disk.syncDirectory() }
}

/// The same behind the reading of a directory.
/// - Throws: As ``syncJournal(of:upTo:)``.
package func syncJournal<Storage: Disk>(
    of disk: Storage, readAs summary: RecoverySummary
) throws(DiskFailure) {
    try syncJournal(of: disk, upTo: summary.segments.last)
}

/// Makes the files of a journal durable, also those that only earlier moments need: another program may have
/// copied them, without a sync. Those that cannot be read are left out: recovery may not need them.
/// - Throws: As ``syncFiles(_:of:except:)``.
func syncFiles<Storage: Disk>(_ listing: DirectoryListing, of disk: Storage) throws(DiskFailure) {
    let names =
        listing.checkpoints.map(\.text) + listing.segments.map(\.text)
        + listing.histories.map(TimelineHistory.fileName)
    try syncFiles(names, of: disk, except: { $0.isMissing || $0.isUnreadable || $0.advice != nil })
}

/// Makes files durable.
/// - Parameter isExpected: Whether a file may fail to be opened like this, for reading, or for writing where
///   only a writer may sync it; then it is left out.
/// - Throws: ``DiskFailure`` where a sync fails; not on a file system without syncs.
/// - Complexity: O(files); for one that is on disk, a flush of the disk's cache.
private func syncFiles<Storage: Disk>(
    _ names: [String], of disk: Storage, except isExpected: (DiskFailure) -> Bool
) throws(DiskFailure) {
    for name in names {
        let file: Storage.File
        do throws(DiskFailure) { file = try disk.open(name, .read) } catch {
            guard isExpected(error) else { throw error }
            continue
        }
        do throws(DiskFailure) { try disk.sync(file) } catch {
            if error.isLackOfSync { continue }
            guard error.isDeniedSync else { throw error }
            try syncAsWriter(name, of: disk, except: isExpected)
        }
    }
}

/// Makes a file durable that this process could open, but not sync: SMB flushes a file only for who may write
/// it (MS-SMB2, 3.3.5.11). That is no repetition of a failed sync: the kernel asks for the flush once the
/// pages are written, and reports a failed write of them as what it is.
/// - Throws: As ``syncFiles(_:of:except:)``, also where it cannot be opened for writing.
private func syncAsWriter<Storage: Disk>(
    _ name: String, of disk: Storage, except isExpected: (DiskFailure) -> Bool
) throws(DiskFailure) {
    let file: Storage.File
    do throws(DiskFailure) { file = try disk.open(name, .readWrite) } catch {
        guard isExpected(error) else { throw error }
        return
    }
    try ifSupported { () throws(DiskFailure) in try disk.sync(file) }
}

private func ifSupported(_ sync: () throws(DiskFailure) -> Void) throws(DiskFailure) {
    do throws(DiskFailure) { try sync() } catch {
        guard error.isLackOfSync else { throw error }
    }
}
