/// One data directory and its files: the only access that the journal has to them. ``SystemDisk`` is the real
/// one. Tests have others, which lose power and fail at any call.
///
/// What the journal assumes of a disk:
/// - Until ``sync(_:)`` returns, a power cut may keep any part of a write and lose any other, in any order.
/// - Bytes of a file that were never written read as zeros, or as earlier bytes of that file, never as data
///   of another file.
/// - A name that was made, changed or removed is durable only after ``syncDirectory()``. A rename is atomic.
/// - After a failed sync, the bytes that it was for may be lost, although they can be read and the next sync
///   succeeds. Only a new write makes them durable. A truncation stays done.
///
/// A disk is used by one thread at a time. A file is closed, and a lock released, with the last reference to
/// it.
package protocol Disk: AnyObject, Sendable {
    associatedtype File: Sendable

    /// The path of the directory, for messages.
    var directory: String { get }

    /// Whether a write over bytes of a file uses the same blocks of the disk. Then it needs no new space, and
    /// its sync writes no metadata, as it does for a file that grows. False where that is not known.
    var overwritesInPlace: Bool { get }

    /// The names in the directory, in no particular order.
    /// - Throws: ``DiskFailure`` if the system call fails.
    func list() throws(DiskFailure) -> [String]
    /// Opens a file of the directory. Does not wait for the other end of a FIFO.
    /// - Throws: ``DiskFailure``, also for what is no regular file.
    func open(_ name: String, _ mode: OpenMode) throws(DiskFailure) -> File
    /// The size of the file.
    /// - Throws: ``DiskFailure``.
    func byteCount(of file: File) throws(DiskFailure) -> Int
    /// Fills `buffer` from `offset` on.
    /// - Returns: The number of bytes read, which is less than the buffer only at the end of the file.
    /// - Throws: ``DiskFailure``.
    @unsafe func read(_ file: File, at offset: Int, into buffer: UnsafeMutableRawBufferPointer)
        throws(DiskFailure) -> Int
    /// Writes all the bytes from `offset` on.
    /// - Throws: ``DiskFailure``. Then any part of the bytes may be written.
    func write(_ bytes: RawSpan, to file: File, at offset: Int) throws(DiskFailure)
    /// Makes the bytes and the size of the file durable. Must not be repeated after a failure: see above.
    /// - Throws: ``DiskFailure``.
    func sync(_ file: File) throws(DiskFailure)
    /// Asks the system to forget what it has in memory of a file that was synced, so that it is read from the
    /// disk next. Nothing is promised: see ``SystemDisk/dropCache(of:)``.
    func dropCache(of file: File)
    /// Reserves space for the bytes of `range`, so that writing them cannot fail with a full disk. The size
    /// of the file does not change.
    /// - Throws: A failure that ``DiskFailure/isOutOfSpace``, when the disk is full. Then nothing is
    ///   reserved.
    func reserve(_ range: Range<Int>, of file: File) throws(DiskFailure)
    /// Makes the file shorter, and releases the space behind its new end.
    /// - Throws: ``DiskFailure``.
    func truncate(_ file: File, to byteCount: Int) throws(DiskFailure)
    /// Renames a file. A file that had the new name is replaced.
    /// - Throws: ``DiskFailure``.
    func rename(_ oldName: String, to newName: String) throws(DiskFailure)
    /// Removes a file.
    /// - Throws: ``DiskFailure``.
    func remove(_ name: String) throws(DiskFailure)
    /// Makes the names in the directory durable.
    /// - Throws: ``DiskFailure``.
    func syncDirectory() throws(DiskFailure)
    /// Tries to acquire the exclusive lock on the file of this name, which is made if it is missing. Never
    /// waits.
    /// - Throws: ``DiskFailure``. A lock that another process holds is no failure.
    func lock(_ name: String) throws(DiskFailure) -> LockOutcome<File>
}

package enum OpenMode: Sendable {
    case read
    case readWrite
    /// For reading and writing. The file is made, or emptied if it exists.
    case create
}

package enum LockOutcome<File> {
    /// The lock is held as long as the file is open.
    case acquired(File)
    /// Another process has the lock: its id, if the lock file contains one.
    case held(processID: Int64?)
}

extension Disk {
    package func dropCache(of file: File) {}

    /// Makes a file and fills it. After a failure it is removed: on a full disk it would keep its space, and
    /// each further attempt may make another file. One that cannot be removed now is removed by the next
    /// start.
    /// - Parameter fill: Writes the file.
    /// - Throws: What `fill` throws, and ``DiskFailure`` where the file cannot be made.
    func makeFile(
        _ name: String, _ fill: (File) throws(DiskFailure) -> Void
    ) throws(DiskFailure) -> File {
        let file = try open(name, .create)
        do throws(DiskFailure) {
            try fill(file)
        } catch {
            // The first failure is reported.
            try? remove(name)
            throw error
        }
        return file
    }
}
