import PandoJournal
import PandoRandom

/// A disk in memory that loses everything that it is allowed to lose. It injects:
/// - a crash before any operation: everything after it fails, until ``losePower(seed:)`` or
///   ``killProcess()``;
/// - a power cut: of unsynced writes each 512-byte sector is new, old or a mixture, independently of the
///   others; the size of a file is anywhere between the old and the new one; the names are those of some
///   moment since the last sync of the directory, or each change of a name is kept or lost by itself;
/// - one failing operation: a failing write may have written a part; a failing sync loses the bytes that it
///   was for, and the next sync succeeds (as on Linux);
/// - a full disk: operations that need more space than ``capacity`` fail;
/// - no descriptors: operations that open a file or the directory fail (``lacksDescriptors``);
/// - the outcome that ``onOperation`` chooses for each operation;
/// - bits that change while the machine is off (``flipBit(of:at:)``).
///
/// `@unchecked Sendable`: used by one thread at a time.
package final class SimulatedDisk: Disk, @unchecked Sendable {
    package final class File: Sendable {
        fileprivate let inode: Inode
        fileprivate init(_ inode: Inode) { self.inode = inode }
    }

    /// `@unchecked Sendable`: used only by the disk.
    fileprivate final class Inode: @unchecked Sendable {
        /// The bytes that reads return.
        var bytes: [UInt8] = []
        /// The bytes that survive a power cut.
        var durable: [UInt8] = []
        /// The sectors in which `bytes` and `durable` may differ.
        var dirtySectors: Set<Int> = []
        /// The end of the reserved space.
        var reservedByteCount = 0
    }

    /// The outcome of an operation.
    package enum OperationOutcome {
        case succeed
        /// The operation fails with an error number: 5 is EIO, 24 is EMFILE, 28 is ENOSPC.
        case fail(Int32)
        /// A read returns half of the bytes that are there. Any other operation succeeds.
        case readHalf
        /// The process or the machine stops: this and every further operation fails, until
        /// ``losePower(seed:)`` or ``killProcess()``.
        case crash
        /// As ``crash``, in the middle of a write of which so many 256ths were done.
        case crashWriting(Int)
    }

    private enum NameChange {
        case make(String, Inode)
        case rename(String, String, Inode)
        case remove(String)
    }

    package static let sectorByteCount = 512

    package let directory = "/simulated"
    package let overwritesInPlace = true
    /// Operations so far, as are ``syncCount`` and ``writeCount``.
    package private(set) var operationCount = 0
    package private(set) var syncCount = 0
    package private(set) var writeCount = 0
    /// The disk crashes before the operation of this index; nil for never.
    package var crashPoint: Int?
    /// The operation of this index fails with ``failureNumber``; nil for none.
    package var failingOperation: Int?
    /// The error number of the failing operation: 5 is EIO, 28 is ENOSPC.
    package var failureNumber: Int32 = 5
    /// All operations so far, unless ``onOperation`` is set.
    package private(set) var operations: [DiskOperation] = []
    /// Chooses the outcome of each operation; nil lets all succeed but ``failingOperation``.
    package var onOperation: ((DiskOperation) -> OperationOutcome)?
    /// The size of the disk in bytes, for all files together.
    package var capacity = Int.max
    /// The process has reached its limit of descriptors: opening a file, listing the directory (which opens
    /// it) and locking fail with EMFILE. Open files stay open.
    package var lacksDescriptors = false
    /// Whether every operation fails because of a crash.
    package private(set) var hasCrashed = false
    /// The next read returns half of its bytes.
    private var halvesRead = false
    /// The 256ths that were done of the write during which the disk crashed.
    private var writtenPart: Int?

    private var names: [String: Inode] = [:]
    /// Every state of the directory since its last sync, the synced one first.
    private var nameHistory: [[String: Inode]] = [[:]]
    /// The changes of names since the last sync.
    private var nameChanges: [NameChange] = []
    /// The file whose holder has the lock. The lock ends with its last reference.
    private weak var lockFile: File?

    package init(crashingBefore crashPoint: Int? = nil, failing failingOperation: Int? = nil) {
        self.crashPoint = crashPoint
        self.failingOperation = failingOperation
    }

    /// A disk that holds these files, all durable.
    package convenience init(files: [String: [UInt8]]) {
        self.init()
        for (name, bytes) in files { add(name, bytes) }
    }

    /// Adds a durable file. The current names become durable too.
    package func add(_ name: String, _ bytes: [UInt8]) {
        let inode = Inode()
        inode.bytes = bytes
        inode.durable = bytes
        names[name] = inode
        nameHistory = [names]
        nameChanges = []
    }

    /// The current bytes of each file.
    package var contents: [String: [UInt8]] { names.mapValues(\.bytes) }

    package var fileNames: [String] { names.keys.sorted() }

    /// The machine loses power and starts again. Every choice follows from the seed.
    package func losePower(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        if Bool.random(using: &random) {
            names = nameHistory[Int.random(in: 0..<nameHistory.count, using: &random)]
        } else {
            names = nameHistory[0]
            for change in nameChanges where Bool.random(using: &random) { apply(change) }
        }
        nameHistory = [names]
        nameChanges = []
        var seen: Set<ObjectIdentifier> = []
        for name in names.keys.sorted() {
            guard let inode = names[name], seen.insert(ObjectIdentifier(inode)).inserted else { continue }
            inode.losePower(&random)
        }
        hasCrashed = false
        crashPoint = nil
        failingOperation = nil
        lockFile = nil
    }

    /// The process ends and the machine goes on: everything that was written stays.
    package func killProcess() {
        hasCrashed = false
        crashPoint = nil
        failingOperation = nil
        lockFile = nil
    }

    /// Changes one bit of a file. Both reads and a power cut see the change. Does nothing beyond the end.
    package func flipBit(of name: String, at bit: Int) {
        guard let inode = names[name], bit / 8 < inode.bytes.count else { return }
        inode.bytes[bit / 8] ^= 1 << UInt8(bit % 8)
        if bit / 8 < inode.durable.count { inode.durable[bit / 8] ^= 1 << UInt8(bit % 8) }
    }

    private func apply(_ change: NameChange) {
        switch change {
        case .make(let name, let inode): names[name] = inode
        case .rename(let old, let new, let inode):
            names[old] = nil
            names[new] = inode
        case .remove(let name): names[name] = nil
        }
    }

    private func change(_ change: NameChange) {
        apply(change)
        nameHistory.append(names)
        nameChanges.append(change)
    }

    /// The space that all files take, with what is reserved.
    package var usedByteCount: Int {
        names.values.reduce(0) { $0 + max($1.bytes.count, $1.reservedByteCount) }
    }

    private func checkSpace(_ operation: DiskOperation, of inode: Inode, upTo end: Int) throws(DiskFailure) {
        let growth = end - max(inode.bytes.count, inode.reservedByteCount)
        guard growth > 0, growth > capacity - usedByteCount else { return }
        throw DiskFailure(
            operation: operation, path: directory, errorNumber: 28, errorText: "No space left on device")
    }

    private func checkDescriptors(_ operation: DiskOperation) throws(DiskFailure) {
        guard lacksDescriptors else { return }
        throw DiskFailure(
            operation: operation, path: directory, errorNumber: Self.noDescriptor,
            errorText: "Too many open files")
    }

    /// EMFILE.
    package static let noDescriptor: Int32 = 24

    /// Counts an operation.
    /// - Returns: Whether the operation has to fail.
    /// - Throws: After a crash.
    private func begin(_ operation: DiskOperation) throws(DiskFailure) -> Bool {
        var fails = false
        if !hasCrashed, let onOperation {
            switch onOperation(operation) {
            case .succeed: break
            case .fail(let number):
                failureNumber = number
                fails = true
            case .readHalf: halvesRead = true
            case .crash: hasCrashed = true
            case .crashWriting(let part):
                hasCrashed = true
                writtenPart = part
            }
        }
        if hasCrashed || operationCount == crashPoint {
            hasCrashed = true
            throw DiskFailure(
                operation: operation, path: directory, errorNumber: 5,
                errorText: "the simulated disk has crashed")
        }
        operationCount += 1
        if onOperation == nil { operations.append(operation) }
        return fails || operationCount - 1 == failingOperation
    }

    private func fail(_ operation: DiskOperation) -> DiskFailure {
        DiskFailure(
            operation: operation, path: directory, errorNumber: failureNumber, errorText: "simulated failure")
    }

    /// The names in the directory, in ascending order.
    /// - Throws: What ``onOperation`` says; EMFILE while ``lacksDescriptors``; EIO after a crash.
    package func list() throws(DiskFailure) -> [String] {
        if try begin(.list) { throw fail(.list) }
        try checkDescriptors(.list)
        return names.keys.sorted()
    }

    /// Opens a file, or makes it.
    /// - Throws: ENOENT where it is missing; otherwise as ``list()``.
    package func open(_ name: String, _ mode: OpenMode) throws(DiskFailure) -> File {
        if try begin(.open) { throw fail(.open) }
        try checkDescriptors(.open)
        if mode == .create {
            let inode = Inode()
            change(.make(name, inode))
            return File(inode)
        }
        guard let inode = names[name] else {
            throw DiskFailure(
                operation: .open, path: name, errorNumber: 2, errorText: "No such file or directory")
        }
        return File(inode)
    }

    /// The size of a file.
    /// - Throws: What ``onOperation`` says; EIO after a crash.
    package func byteCount(of file: File) throws(DiskFailure) -> Int {
        if try begin(.size) { throw fail(.size) }
        return file.inode.bytes.count
    }

    /// Reads as many bytes as there are, at most as many as the buffer takes.
    /// - Returns: Their number; half of it where ``OperationOutcome/readHalf`` is the outcome.
    /// - Throws: As ``byteCount(of:)``.
    @unsafe package func read(
        _ file: File, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(DiskFailure) -> Int {
        if try begin(.read) { throw fail(.read) }
        let bytes = file.inode.bytes
        var count = max(0, min(buffer.count, bytes.count - offset))
        if halvesRead { count /= 2 }
        halvesRead = false
        // In bounds of both: `count` is the smaller.
        if count > 0 { unsafe buffer.copyBytes(from: bytes[offset..<offset + count]) }
        return count
    }

    /// Writes bytes. Half of them are written where it fails as ``onOperation`` says.
    /// - Throws: ENOSPC where ``capacity`` is too small; otherwise as ``byteCount(of:)``.
    package func write(_ span: RawSpan, to file: File, at offset: Int) throws(DiskFailure) {
        let fails: Bool
        do throws(DiskFailure) { fails = try begin(.write) } catch {
            if let part = writtenPart {
                let bytes = Self.array(span)
                file.inode.write(Array(bytes.prefix(bytes.count * part / 256)), at: offset)
                writtenPart = nil
            }
            throw error
        }
        try checkSpace(.write, of: file.inode, upTo: offset + span.byteCount)
        writeCount += 1
        let bytes = Self.array(span)
        file.inode.write(fails ? Array(bytes.prefix(bytes.count / 2)) : bytes, at: offset)
        if fails { throw fail(.write) }
    }

    private static func array(_ span: RawSpan) -> [UInt8] {
        unsafe span.withUnsafeBytes { unsafe Array($0) }
    }

    /// Makes the bytes of a file durable. A sync that fails loses those that were written since the last one.
    /// - Throws: As ``byteCount(of:)``.
    package func sync(_ file: File) throws(DiskFailure) {
        let fails = try begin(.sync)
        syncCount += 1
        let inode = file.inode
        if fails {
            // As Linux does: the pages are marked clean and never written, so the old bytes stay durable. A
            // truncation stays done.
            inode.dirtySectors = []
            inode.durable = Array(inode.durable.prefix(inode.bytes.count))
            throw fail(.sync)
        }
        inode.sync()
    }

    /// Reserves space.
    /// - Throws: ENOSPC where ``capacity`` is too small; otherwise as ``byteCount(of:)``.
    package func reserve(_ range: Range<Int>, of file: File) throws(DiskFailure) {
        if try begin(.reserve) { throw fail(.reserve) }
        try checkSpace(.reserve, of: file.inode, upTo: range.upperBound)
        file.inode.reservedByteCount = max(file.inode.reservedByteCount, range.upperBound)
    }

    /// Makes a file shorter, and releases its space behind the end.
    /// - Throws: As ``byteCount(of:)``.
    package func truncate(_ file: File, to byteCount: Int) throws(DiskFailure) {
        if try begin(.truncate) { throw fail(.truncate) }
        let inode = file.inode
        inode.reservedByteCount = 0
        if byteCount < inode.bytes.count {
            let old = inode.bytes.count
            inode.bytes.removeLast(old - byteCount)
            for sector in byteCount / Self.sectorByteCount...old / Self.sectorByteCount {
                inode.dirtySectors.insert(sector)
            }
        }
    }

    /// Renames a file.
    /// - Throws: ENOENT where it is missing; otherwise as ``byteCount(of:)``.
    package func rename(_ oldName: String, to newName: String) throws(DiskFailure) {
        if try begin(.rename) { throw fail(.rename) }
        guard let inode = names[oldName] else {
            throw DiskFailure(
                operation: .rename, path: oldName, errorNumber: 2, errorText: "No such file or directory")
        }
        change(.rename(oldName, newName, inode))
    }

    /// Removes a name.
    /// - Throws: As ``byteCount(of:)``.
    package func remove(_ name: String) throws(DiskFailure) {
        if try begin(.remove) { throw fail(.remove) }
        change(.remove(name))
    }

    /// Makes all names durable.
    /// - Throws: As ``byteCount(of:)``.
    package func syncDirectory() throws(DiskFailure) {
        if try begin(.syncDirectory) { throw fail(.syncDirectory) }
        nameHistory = [names]
        nameChanges = []
    }

    /// Acquires the lock, unless a file holds it.
    /// - Throws: As ``list()``.
    package func lock(_ name: String) throws(DiskFailure) -> LockOutcome<File> {
        if try begin(.lock) { throw fail(.lock) }
        try checkDescriptors(.lock)
        if lockFile != nil { return .held(processID: 42) }
        let file = File(Inode())
        lockFile = file
        return .acquired(file)
    }
}

extension SimulatedDisk.Inode {
    func write(_ new: [UInt8], at offset: Int) {
        if new.isEmpty { return }
        let end = offset + new.count
        if bytes.count < end { bytes.append(contentsOf: [UInt8](repeating: 0, count: end - bytes.count)) }
        bytes.replaceSubrange(offset..<end, with: new)
        let size = SimulatedDisk.sectorByteCount
        for sector in offset / size...(end - 1) / size { dirtySectors.insert(sector) }
    }

    /// A sync: makes all bytes durable, except those that an earlier failed sync lost.
    func sync() {
        let size = SimulatedDisk.sectorByteCount
        if durable.count > bytes.count { durable.removeLast(durable.count - bytes.count) }
        if durable.count < bytes.count {
            durable.append(contentsOf: [UInt8](repeating: 0, count: bytes.count - durable.count))
        }
        for sector in dirtySectors {
            let range = min(sector * size, bytes.count)..<min(bytes.count, (sector + 1) * size)
            durable.replaceSubrange(range, with: bytes[range])
        }
        dirtySectors = []
        assert(durable.count == bytes.count)
    }

    /// A power cut: every dirty sector is old, new, or partly new.
    func losePower(_ random: inout SeededGenerator) {
        let size = SimulatedDisk.sectorByteCount
        let lengths = [durable.count, bytes.count].sorted()
        let length = Int.random(in: lengths[0]...lengths[1], using: &random)
        var result = [UInt8](repeating: 0, count: length)
        for offset in 0..<min(length, durable.count) { result[offset] = durable[offset] }
        for sector in dirtySectors.sorted() {
            let start = min(length, sector * size)
            let end = min(length, bytes.count, (sector + 1) * size)
            if end <= start { continue }
            switch Int.random(in: 0..<4, using: &random) {
            case 0, 1: for offset in start..<end { result[offset] = bytes[offset] }
            case 2:
                for offset in start..<Int.random(in: start...end, using: &random) {
                    result[offset] = bytes[offset]
                }
            default: break
            }
        }
        bytes = result
        durable = result
        dirtySectors = []
    }
}
