import PandoBytes
import PandoJournal

/// A disk that passes every call on to another one. A disk of a test that differs from a real one, or from a
/// ``SimulatedDisk``, in some calls declares only these.
package protocol ForwardingDisk: Disk {
    associatedtype Base: Disk where Base.File == File
    /// Does what the disk does not do itself.
    var base: Base { get }
}

extension ForwardingDisk {
    package var directory: String { base.directory }
    package var overwritesInPlace: Bool { base.overwritesInPlace }

    package func list() throws(DiskFailure) -> [String] { try base.list() }
    package func open(_ name: String, _ mode: OpenMode) throws(DiskFailure) -> File {
        try base.open(name, mode)
    }
    package func byteCount(of file: File) throws(DiskFailure) -> Int { try base.byteCount(of: file) }
    @unsafe package func read(
        _ file: File, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(DiskFailure) -> Int {
        // Passed on as it came.
        try unsafe base.read(file, at: offset, into: buffer)
    }
    package func write(_ bytes: RawSpan, to file: File, at offset: Int) throws(DiskFailure) {
        try base.write(bytes, to: file, at: offset)
    }
    package func sync(_ file: File) throws(DiskFailure) { try base.sync(file) }
    package func dropCache(of file: File) { base.dropCache(of: file) }
    package func reserve(_ range: Range<Int>, of file: File) throws(DiskFailure) {
        try base.reserve(range, of: file)
    }
    package func truncate(_ file: File, to byteCount: Int) throws(DiskFailure) {
        try base.truncate(file, to: byteCount)
    }
    package func rename(_ oldName: String, to newName: String) throws(DiskFailure) {
        try base.rename(oldName, to: newName)
    }
    package func remove(_ name: String) throws(DiskFailure) { try base.remove(name) }
    package func syncDirectory() throws(DiskFailure) { try base.syncDirectory() }
    package func lock(_ name: String) throws(DiskFailure) -> LockOutcome<File> { try base.lock(name) }
}
