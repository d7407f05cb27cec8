/// Makes the journal of a directory durable as far as it can be read now, from outside of the process that
/// writes it.
///
/// A reader of a directory sees records before the sync of the server that writes them. Such a record was not
/// acknowledged, and a power cut may take it; the server then gives its sequence to another one. So whatever
/// keeps what it has read, such as a backup, calls this behind the reading: what it has read stays.
///
/// Segments that were removed meanwhile are left out: the checkpoints that made them superfluous are durable.
/// - Throws: ``DiskFailure`` where a sync fails; not on a file system without syncs.
/// - Complexity: O(segments). Segments that are on disk take no time.
package func syncJournal<Storage: Disk>(of disk: Storage) throws(DiskFailure) {
    for name in DirectoryListing(try disk.list()).segments {
        let file: Storage.File
        do throws(DiskFailure) { file = try disk.open(name.text, .read) } catch {
            guard error.isMissing else { throw error }
            continue
        }
        try ifSupported { () throws(DiskFailure) in try disk.sync(file) }
    }
    try ifSupported { () throws(DiskFailure) in try disk.syncDirectory() }
}

private func ifSupported(_ sync: () throws(DiskFailure) -> Void) throws(DiskFailure) {
    do throws(DiskFailure) { try sync() } catch {
        guard error.isLackOfSync else { throw error }
    }
}
