import COperatingSystem

/// A directory of this machine. What each function does, and the ``DiskFailure`` that it throws, is said at
/// ``Disk``.
package final class SystemDisk: Disk {
    package let directory: String
    package let overwritesInPlace: Bool
    private let descriptor: Int32

    /// An open file, or a held lock.
    package final class File: Sendable {
        fileprivate let descriptor: Int32
        private let directory: String
        private let openedName: String
        /// Of a lock: the descriptor that holds the lock of the directory.
        private let directoryLock: Int32?

        fileprivate init(
            descriptor: Int32, named name: String, in directory: String, directoryLock: Int32? = nil
        ) {
            self.descriptor = descriptor
            openedName = name
            self.directory = directory
            self.directoryLock = directoryLock
        }

        deinit {
            // The result does not matter: everything that must be durable was synced before, and its errors
            // reported.
            _ = pando_disk_close(descriptor)
            if let directoryLock { _ = pando_disk_close(directoryLock) }
        }

        /// The present path, for messages: a file that is being made gets another name when it is finished.
        /// Where the system does not say it, the path under which the file was opened.
        fileprivate var path: String {
            // The longest name has 255 bytes.
            var name = [CChar](repeating: 0, count: 256)
            let count = name.count
            // The function fills no more than `count` bytes, and ends them with NUL.
            guard unsafe pando_disk_name(descriptor, &name, count) == 0 else {
                return directory + "/" + openedName
            }
            let bytes = name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:))
            return directory + "/" + String(decoding: bytes, as: UTF8.self)
        }
    }

    /// Makes a directory that is not there yet (mode 0700), and opens it.
    /// - Throws: ``DiskFailure``; one that ``DiskFailure/isTaken`` where there is anything of that name.
    package init(new directory: String) throws(DiskFailure) {
        self.directory = directory
        try check(unsafe pando_disk_make_new_directory(directory), .makeDirectory, directory)
        descriptor = try check(unsafe pando_disk_open_directory(directory), .open, directory)
        overwritesInPlace = pando_disk_overwrites_in_place(descriptor) != 0
    }

    /// Opens the directory.
    /// - Parameter create: Makes the directory if it does not exist (mode 0700). Its parent must exist.
    /// - Throws: ``DiskFailure``.
    package init(directory: String, create: Bool) throws(DiskFailure) {
        self.directory = directory
        if create {
            try check(unsafe pando_disk_make_directory(directory), .makeDirectory, directory)
        }
        descriptor = try check(unsafe pando_disk_open_directory(directory), .open, directory)
        overwritesInPlace = pando_disk_overwrites_in_place(descriptor) != 0
    }

    deinit {
        _ = pando_disk_close(descriptor)
    }

    /// Bytes of the file system: all, and those that are free for this process. Nil where it does not say.
    package var space: (byteCount: Int, freeByteCount: Int)? {
        var (all, free) = (UInt64(0), UInt64(0))
        guard unsafe pando_disk_space(descriptor, &all, &free) == 0 else { return nil }
        return (Int(clamping: all), Int(clamping: free))
    }

    package func list() throws(DiskFailure) -> [String] {
        var capacity = 4096
        while true {
            var names = [CChar](repeating: 0, count: capacity)
            // The function fills no more than `capacity` bytes.
            let needed = Int(
                try check(unsafe pando_disk_list(descriptor, &names, capacity), .list, directory))
            if needed <= capacity {
                return names[..<needed].split(separator: 0).map {
                    String(decoding: $0.map(UInt8.init(bitPattern:)), as: UTF8.self)
                }
            }
            capacity = needed + 4096  // Another process may add names meanwhile.
        }
    }

    package func open(_ name: String, _ mode: OpenMode) throws(DiskFailure) -> File {
        let modeNumber =
            switch mode {
            case .read: PANDO_DISK_READ
            case .readWrite: PANDO_DISK_READ_WRITE
            case .create: PANDO_DISK_CREATE
            }
        let file = try check(
            unsafe pando_disk_open(descriptor, name, Int32(modeNumber)), .open, path(of: name))
        return File(descriptor: file, named: name, in: directory)
    }

    package func byteCount(of file: File) throws(DiskFailure) -> Int {
        Int(try check(pando_disk_size(file.descriptor), .size, file.path))
    }

    @unsafe package func read(
        _ file: File, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(DiskFailure) -> Int {
        // The function fills no more than `count` bytes.
        let count = unsafe pando_disk_read(file.descriptor, buffer.baseAddress, buffer.count, UInt64(offset))
        return Int(try check(count, .read, file.path))
    }

    package func write(_ bytes: RawSpan, to file: File, at offset: Int) throws(DiskFailure) {
        // The function reads `count` bytes and no more.
        let result = unsafe bytes.withUnsafeBytes { buffer in
            unsafe pando_disk_write(file.descriptor, buffer.baseAddress, buffer.count, UInt64(offset))
        }
        try check(result, .write, file.path)
    }

    package func sync(_ file: File) throws(DiskFailure) {
        try check(pando_disk_sync(file.descriptor), .sync, file.path)
    }

    /// Asks the kernel to drop the pages of the file (posix_fadvise(2)). It drops only those that are clean
    /// and that no process has mapped. Even then bytes may come from memory: on tmpfs, which has no disk; on
    /// a file system with a cache of its own, such as ZFS; on the server of a network file system; and from
    /// the memory of a disk, of its controller, or of the host of a virtual machine. So a check behind this
    /// finds what this machine's memory hides, and is no proof.
    package func dropCache(of file: File) { pando_disk_drop_cache(file.descriptor) }

    package func reserve(_ range: Range<Int>, of file: File) throws(DiskFailure) {
        try check(
            pando_disk_reserve(file.descriptor, UInt64(range.lowerBound), UInt64(range.upperBound)), .reserve,
            file.path)
    }

    package func truncate(_ file: File, to byteCount: Int) throws(DiskFailure) {
        try check(pando_disk_truncate(file.descriptor, UInt64(byteCount)), .truncate, file.path)
    }

    package func rename(_ oldName: String, to newName: String) throws(DiskFailure) {
        try check(unsafe pando_disk_rename(descriptor, oldName, newName), .rename, path(of: oldName))
    }

    package func remove(_ name: String) throws(DiskFailure) {
        try check(unsafe pando_disk_remove(descriptor, name), .remove, path(of: name))
    }

    package func syncDirectory() throws(DiskFailure) {
        try check(pando_disk_sync_directory(descriptor), .syncDirectory, directory)
    }

    package func lock(_ name: String) throws(DiskFailure) -> LockOutcome<File> {
        var owner: Int64 = 0
        // The directory first: the lock of a file ends to protect when the file is removed.
        let directoryLock = unsafe pando_disk_lock_directory(descriptor, name, &owner)
        if directoryLock == -pando_disk_would_block() { return .held(processID: owner > 0 ? owner : nil) }
        try check(directoryLock, .lock, directory)
        let result = unsafe pando_disk_lock(descriptor, name, &owner)
        guard result >= 0 else {
            _ = pando_disk_close(directoryLock)
            if result == -pando_disk_would_block() { return .held(processID: owner > 0 ? owner : nil) }
            throw failure(result, .lock, path(of: name))
        }
        return .acquired(
            File(descriptor: result, named: name, in: directory, directoryLock: directoryLock))
    }

    /// Whether a name of this directory is that of an open file: the same device and inode. Another directory
    /// may have come to the path since the file was opened, when a disk was mounted or unmounted there.
    /// - Throws: ``DiskFailure``.
    package func isSame(_ file: File, as name: String) throws(DiskFailure) -> Bool {
        try check(unsafe pando_disk_is_same(descriptor, name, file.descriptor), .size, path(of: name)) != 0
    }

    private func path(of name: String) -> String { directory + "/" + name }
}

/// Throws a ``DiskFailure`` for a result of `-errno`.
/// - Parameter path: Computed for a failure only.
@discardableResult
private func check<Number: SignedInteger & FixedWidthInteger>(
    _ result: Number, _ operation: DiskOperation, _ path: @autoclosure () -> String
) throws(DiskFailure) -> Number {
    if result >= 0 { return result }
    throw failure(result, operation, path())
}

/// - Parameter result: `-errno`.
private func failure(
    _ result: some SignedInteger & FixedWidthInteger, _ operation: DiskOperation, _ path: String
) -> DiskFailure {
    let number = Int32(truncatingIfNeeded: 0 - result)
    // A constant of the C library, ended by NUL.
    var text = unsafe String(cString: pando_disk_error_text(number))
    // Its "No such device or address" does not say what is wrong with the file.
    if operation == .open, pando_disk_is_special(number) != 0 { text = "not a regular file" }
    return DiskFailure(operation: operation, path: path, errorNumber: number, errorText: text)
}
