import CSystem

/// The only door to files: one data directory, seen by name. Tests stand their own behind it to lose power,
/// to fail the n-th call, and to show what a reader can rely on.
///
/// What the journal assumes of any disk behind this door:
/// - until ``sync(_:)`` returns, a power cut may keep any part of a write and lose any other, in any order;
/// - bytes never written inside a file read as zeros, or as what was once written there, never as other
///   files' data;
/// - a name made, changed or removed is certain only after ``syncDirectory()``; a rename is atomic;
/// - once a sync failed, the bytes it was for may be lost although they read well and the next sync succeeds;
///   only writing them again helps. A truncation is not undone by it.
///
/// A disk is used by one thread at a time. A file closes, and a lock opens, when the last reference to it
/// goes.
package protocol Disk: AnyObject, Sendable {
    associatedtype File: Sendable

    /// The directory's path, for messages.
    var directory: String { get }

    /// Whether what is written over bytes of a file takes their place: then a sync of it has nothing else to
    /// write down, where one that makes a file longer must say so, and never needs room. False where that is
    /// not known.
    var overwritesInPlace: Bool { get }

    /// The names in the directory, in no order.
    func list() throws(DiskFailure) -> [String]
    func open(_ name: String, _ mode: OpenMode) throws(DiskFailure) -> File
    func byteCount(of file: File) throws(DiskFailure) -> Int
    /// Fills `buffer` from `offset` on; answers how many bytes there were: fewer only at the file's end.
    @unsafe func read(_ file: File, at offset: Int, into buffer: UnsafeMutableRawBufferPointer)
        throws(DiskFailure) -> Int
    /// Writes the pieces, one after another, from `offset` on: all of them, or an error and nobody knows how
    /// many.
    func write(_ bytes: GatheredBytes, to file: File, at offset: Int) throws(DiskFailure)
    /// Makes the file's bytes and size durable.
    func sync(_ file: File) throws(DiskFailure)
    /// Takes room for the bytes of `range`, so that writing them cannot fail for want of it; the size of the
    /// file stays as it is. Fails with ``DiskFailure/isOutOfSpace`` when there is no room, and has then done
    /// nothing.
    func reserve(_ range: Range<Int>, of file: File) throws(DiskFailure)
    func truncate(_ file: File, to byteCount: Int) throws(DiskFailure)
    /// Replaces what was called `newName`.
    func rename(_ oldName: String, to newName: String) throws(DiskFailure)
    func remove(_ name: String) throws(DiskFailure)
    /// Makes the directory's names durable.
    func syncDirectory() throws(DiskFailure)
    /// Takes the exclusive lock that the file of this name stands for; never waits.
    func lock(_ name: String) throws(DiskFailure) -> LockOutcome<File>
}

package enum OpenMode: Sendable {
    case read
    case readWrite
    /// For reading and writing, empty: made if it was not there, emptied if it was.
    case create
}

package enum LockOutcome<File> {
    /// The lock holds as long as the file does.
    case acquired(File)
    /// Somebody has it; the process id in the lock file, if one was readable.
    case held(processID: Int64?)
}

/// Bytes in several places, to be written as if they lay in one. Valid only during the call that receives it.
@safe
package struct GatheredBytes {
    let pieces: [pando_disk_piece]
    package let byteCount: Int

    /// The memory under `pieces` must stay for as long as this value is used.
    @unsafe init(pieces: [pando_disk_piece]) {
        unsafe self.pieces = unsafe pieces
        var sum = 0
        for index in unsafe pieces.indices { sum += unsafe pieces[index].count }
        byteCount = sum
    }

    /// A copy, for tests.
    package var array: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(byteCount)
        for index in unsafe pieces.indices {
            let piece = unsafe pieces[index]
            // `count` bytes are there: see `init`.
            unsafe bytes.append(contentsOf: UnsafeRawBufferPointer(start: piece.base, count: piece.count))
        }
        return bytes
    }
}

extension GatheredBytes {
    /// Lends bytes that lie together as one piece.
    package static func with<Failure: Error>(
        _ bytes: RawSpan, _ body: (GatheredBytes) throws(Failure) -> Void
    ) throws(Failure) {
        // The bytes stay until `body` returns.
        try unsafe bytes.withUnsafeBytes { (buffer: UnsafeRawBufferPointer) throws(Failure) in
            let piece = unsafe pando_disk_piece(base: buffer.baseAddress, count: buffer.count)
            try body(unsafe GatheredBytes(pieces: [piece]))
        }
    }
}
