import COperatingSystem

/// A system call on a file. The raw value is its name in messages.
package enum DiskOperation: String, Sendable {
    case makeDirectory = "mkdir"
    case list = "readdir"
    case open
    case size = "fstat"
    case read = "pread"
    case write = "pwrite"
    case sync = "fdatasync"
    case reserve = "fallocate"
    case truncate = "ftruncate"
    case rename
    case remove = "unlink"
    case syncDirectory = "fsync"
    case lock = "flock"
    /// To start the thread that writes a file.
    case startThread = "pthread_create"

    /// Whether it is a sync. After a failed one it is unknown which of the earlier writes are on the disk, so
    /// a second try does not help.
    var isSync: Bool { self == .sync || self == .syncDirectory }
}

/// A failed system call on a file: the call, the path, and the error of the kernel.
package struct DiskFailure: Error, Equatable, Sendable, CustomStringConvertible {
    package let operation: DiskOperation
    package let path: String
    /// `errno`; 0 when the file ended before the bytes that it should contain.
    package let errorNumber: Int32
    package let errorText: String

    package init(operation: DiskOperation, path: String, errorNumber: Int32, errorText: String) {
        self.operation = operation
        self.path = path
        self.errorNumber = errorNumber
        self.errorText = errorText
    }

    /// The disk is full, the quota is used up, or a file would be larger than this process may make one.
    /// There may be space later.
    package var isOutOfSpace: Bool { pando_disk_is_full(errorNumber) != 0 }

    /// Too many files are open, in the process or on the machine. There may be fewer later.
    package var lacksDescriptors: Bool { pando_disk_lacks_descriptors(errorNumber) != 0 }

    /// Space on the disk or descriptors are short. There may be more later.
    package var isShortage: Bool { isOutOfSpace || lacksDescriptors }

    /// A shortage that changed nothing, so that the same call may succeed later. Never true for a sync: after
    /// a failed one it is unknown which of the earlier writes are on the disk.
    package var mayBeRetried: Bool { isShortage && !operation.isSync }

    /// Whether the disk, or its file system, cannot read a file that is there. Not for want of permission,
    /// memory or descriptors: these say nothing about the file.
    package var isUnreadable: Bool {
        switch operation {
        case .open, .size, .read: break
        default: return false
        }
        return !isShortage && !isMissing && pando_disk_lacks_memory(errorNumber) == 0
            && pando_disk_is_not_permitted(errorNumber) == 0
    }

    /// There is no file of that name.
    package var isMissing: Bool { pando_disk_is_missing(errorNumber) != 0 }

    /// There is something of that name already.
    package var isTaken: Bool { pando_disk_is_taken(errorNumber) != 0 }

    /// The file system has no syncs, and is never written: nothing there waits for a sync.
    ///
    /// Every other error of a sync says that something may not be on the disk. So does EROFS: ext4 gives
    /// it once the kernel writes no more to it, because of errors. Mounted for reading, it syncs.
    var isLackOfSync: Bool { operation.isSync && pando_disk_lacks_sync(errorNumber) != 0 }

    /// A sync was refused to this process: the file system syncs only for who has opened the file for
    /// writing. It says nothing about the file.
    var isDeniedSync: Bool { operation.isSync && pando_disk_is_not_permitted(errorNumber) != 0 }

    /// What should be a directory is something else.
    package var isNoDirectory: Bool { pando_disk_is_no_directory(errorNumber) != 0 }

    /// Why a directory, or a file in it, cannot be opened as it is, and what to do: for what only another
    /// path or other permissions mend. nil for all other failures.
    package var advice: String? {
        switch operation {
        case .makeDirectory, .list, .open, .lock: break
        default: return nil
        }
        if pando_disk_is_not_permitted(errorNumber) != 0 {
            return
                "\(path): \(errorText): this process runs as user \(pando_disk_user_id()), who may not do that; run it "
                + "as the user that owns the directory (sudo -u USER), or change the owner (chown -R USER)"
        }
        if pando_disk_is_read_only(errorNumber) != 0 {
            return "\(path): the file system is mounted read-only"
        }
        if isNoDirectory { return "\(path): not a directory; give the path of a directory" }
        if isMissing, operation == .makeDirectory {
            return
                "\(path): the directory above it does not exist; make it first (mkdir -p), or correct the path"
        }
        return nil
    }

    package var description: String {
        "\(path): \(operation.rawValue) failed: \(errorText) (errno \(errorNumber))"
    }
}
