import PandoBytes

// Small files beside the journal: read and replaced as a whole.

/// Reads a whole file.
/// - Parameter limit: The largest size that such a file has.
/// - Returns: Its bytes; nil where there is no such file, or it is larger.
/// - Throws: ``DiskFailure``.
package func readSmallFile<Storage: Disk>(
    _ name: String, limit: Int, on disk: Storage
) throws(DiskFailure) -> [UInt8]? {
    guard try disk.list().contains(name) else { return nil }
    let file = try disk.open(name, .read)
    let byteCount = try disk.byteCount(of: file)
    guard byteCount <= limit else { return nil }
    var window = FileWindow(
        of: file, path: disk.directory + "/" + name, byteCount: byteCount, on: disk)
    try window.load(0..<byteCount)
    var bytes: [UInt8] = []
    bytes.append(window.bytes(0..<byteCount))
    return bytes
}

/// Replaces a file, or makes it: durable and as a whole, or not at all.
/// - Throws: ``DiskFailure``.
package func replaceSmallFile<Storage: Disk>(
    _ name: String, with bytes: [UInt8], on disk: Storage
) throws(DiskFailure) {
    let unfinished = name + CheckpointName.unfinishedEnd
    _ = try disk.makeFile(unfinished) { file throws(DiskFailure) in
        try disk.write(bytes.rawSpan, to: file, at: 0)
        try disk.sync(file)
        try disk.rename(unfinished, to: name)
    }
    try disk.syncDirectory()
}
