import PandoJournal

/// A disk that keeps only what it must. It injects:
/// - power loss before any operation: everything after it fails, until ``losePower(seed:)`` brings the
///   machine back;
/// - what a power cut leaves of unsynced writes: each 512-byte sector new, old or torn inside, independently
///   of the others; the file's size anywhere between; names as they were at some moment since the directory
///   was synced, or each change of a name kept or lost by itself;
/// - one failing operation: a failing write may have written a part; a failing sync loses what it was for,
///   and the next one succeeds as if nothing had happened (as Linux does);
/// - a full disk: what grows a file beyond the room there is fails;
/// - no descriptors: what opens a file or the directory fails, see ``lacksDescriptors``;
/// - whatever ``onOperation`` says, operation by operation;
/// - bits that change while the machine is off (``flipBit(of:at:)``).
///
/// `@unchecked Sendable`: one thread.
package final class SimulatedDisk: Disk, @unchecked Sendable {
    package final class File: Sendable {
        fileprivate let inode: Inode
        fileprivate init(_ inode: Inode) { self.inode = inode }
    }

    /// `@unchecked Sendable`: as the disk.
    fileprivate final class Inode: @unchecked Sendable {
        /// What every reader sees.
        var bytes: [UInt8] = []
        /// What is on the platter.
        var durable: [UInt8] = []
        /// Where `bytes` and `durable` may differ.
        var dirtySectors: Set<Int> = []
        /// Up to here the disk has promised room.
        var reservedByteCount = 0
    }

    /// What is to come of an operation.
    package enum Verdict {
        case goOn
        /// The error's number: 5 is EIO, 24 is EMFILE, 28 is ENOSPC.
        case fail(Int32)
        /// A read gives fewer bytes than there are.
        case cutShort
        /// The process dies, or the machine: nothing more is done until ``losePower(seed:)`` or
        /// ``killProcess()``.
        case die
        /// As ``die``, in the middle of a write: so much of it was done, in 256ths.
        case dieWriting(Int)
    }

    private enum NameChange {
        case make(String, Inode)
        case rename(String, String, Inode)
        case remove(String)
    }

    /// A held lock opens when this goes.
    private final class LockHolder {}

    package static let sectorByteCount = 512

    package let directory = "/simulated"
    package let overwritesInPlace = true
    package private(set) var operationCount = 0
    package private(set) var syncCount = 0
    package private(set) var writeCount = 0
    package var crashPoint: Int?
    package var failingOperation: Int?
    /// What a failing operation says: EIO, or ENOSPC.
    package var failureNumber: Int32 = 5
    /// What was asked for, in order, to find an operation by its name.
    package private(set) var operations: [String] = []
    /// Is asked before each operation, by its name as the kernel calls it.
    package var onOperation: ((String) -> Verdict)?
    /// Bytes the disk has room for, in all files together.
    package var capacity = Int.max
    /// The process has all descriptors that it may have: opening a file, listing the directory (which opens
    /// it) and taking the lock fail with EMFILE. What is open stays open.
    package var lacksDescriptors = false
    package private(set) var hasCrashed = false
    private var cutsShort = false
    /// Of the write during which everything ended.
    private var writtenPart: Int?

    private var names: [String: Inode] = [:]
    /// Every state of the directory since it was last synced, the synced one first.
    private var nameHistory: [[String: Inode]] = [[:]]
    /// What was done to names since then.
    private var nameChanges: [NameChange] = []
    private weak var lockFile: File?

    package init(crashingBefore crashPoint: Int? = nil, failing failingOperation: Int? = nil) {
        self.crashPoint = crashPoint
        self.failingOperation = failingOperation
    }

    /// A disk with these files on it, all durable.
    package convenience init(files: [String: [UInt8]]) {
        self.init()
        for (name, bytes) in files { add(name, bytes) }
    }

    /// Puts a file there, durable.
    package func add(_ name: String, _ bytes: [UInt8]) {
        let inode = Inode()
        inode.bytes = bytes
        inode.durable = bytes
        names[name] = inode
        nameHistory = [names]
        nameChanges = []
    }

    /// What is in each file now.
    package var contents: [String: [UInt8]] { names.mapValues(\.bytes) }

    package var fileNames: [String] { names.keys.sorted() }

    /// The machine goes off and on again.
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
            inode.survive(&random)
        }
        hasCrashed = false
        crashPoint = nil
        failingOperation = nil
        lockFile = nil
    }

    /// The process dies, the machine does not: what was written stays.
    package func killProcess() {
        hasCrashed = false
        crashPoint = nil
        failingOperation = nil
        lockFile = nil
    }

    /// A bit changes on the platter. What is read from now on has it.
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

    /// What all files take, with what was promised them.
    package var usedByteCount: Int {
        names.values.reduce(0) { $0 + max($1.bytes.count, $1.reservedByteCount) }
    }

    private func takeRoom(_ operation: DiskOperation, of inode: Inode, upTo end: Int) throws(DiskFailure) {
        let growth = end - max(inode.bytes.count, inode.reservedByteCount)
        guard growth > 0, growth > capacity - usedByteCount else { return }
        throw DiskFailure(
            operation: operation, path: directory, errorNumber: 28, errorText: "No space left on device")
    }

    private func takeDescriptor(_ operation: DiskOperation) throws(DiskFailure) {
        guard lacksDescriptors else { return }
        throw DiskFailure(
            operation: operation, path: directory, errorNumber: Self.noDescriptor,
            errorText: "Too many open files")
    }

    /// EMFILE.
    package static let noDescriptor: Int32 = 24

    /// Counts an operation; answers whether it is to fail.
    private func begin(_ operation: DiskOperation) throws(DiskFailure) -> Bool {
        var fails = false
        if !hasCrashed, let onOperation {
            switch onOperation(operation.rawValue) {
            case .goOn: break
            case .fail(let number):
                failureNumber = number
                fails = true
            case .cutShort: cutsShort = true
            case .die: hasCrashed = true
            case .dieWriting(let part):
                hasCrashed = true
                writtenPart = part
            }
        }
        if hasCrashed || operationCount == crashPoint {
            hasCrashed = true
            throw DiskFailure(operation: operation, path: directory, errorNumber: 5, errorText: "no power")
        }
        operationCount += 1
        if onOperation == nil { operations.append(operation.rawValue) }
        return fails || operationCount - 1 == failingOperation
    }

    private func fail(_ operation: DiskOperation) -> DiskFailure {
        DiskFailure(
            operation: operation, path: directory, errorNumber: failureNumber, errorText: "made to fail")
    }

    package func list() throws(DiskFailure) -> [String] {
        if try begin(.list) { throw fail(.list) }
        try takeDescriptor(.list)
        return names.keys.sorted()
    }

    package func open(_ name: String, _ mode: OpenMode) throws(DiskFailure) -> File {
        if try begin(.open) { throw fail(.open) }
        try takeDescriptor(.open)
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

    package func byteCount(of file: File) throws(DiskFailure) -> Int {
        if try begin(.size) { throw fail(.size) }
        return file.inode.bytes.count
    }

    @unsafe package func read(
        _ file: File, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(DiskFailure) -> Int {
        if try begin(.read) { throw fail(.read) }
        let bytes = file.inode.bytes
        var count = max(0, min(buffer.count, bytes.count - offset))
        if cutsShort { count /= 2 }
        cutsShort = false
        // In bounds of both: `count` is the smaller.
        if count > 0 { unsafe buffer.copyBytes(from: bytes[offset..<offset + count]) }
        return count
    }

    package func write(_ gathered: GatheredBytes, to file: File, at offset: Int) throws(DiskFailure) {
        let fails: Bool
        do throws(DiskFailure) { fails = try begin(.write) } catch {
            if let part = writtenPart {
                let bytes = gathered.array
                file.inode.write(Array(bytes.prefix(bytes.count * part / 256)), at: offset)
                writtenPart = nil
            }
            throw error
        }
        try takeRoom(.write, of: file.inode, upTo: offset + gathered.byteCount)
        writeCount += 1
        let bytes = gathered.array
        file.inode.write(fails ? Array(bytes.prefix(bytes.count / 2)) : bytes, at: offset)
        if fails { throw fail(.write) }
    }

    package func sync(_ file: File) throws(DiskFailure) {
        let fails = try begin(.sync)
        syncCount += 1
        let inode = file.inode
        if fails {
            // The pages are marked clean and never written: the platter keeps what it had. What was cut off
            // stays so.
            inode.dirtySectors = []
            inode.durable = Array(inode.durable.prefix(inode.bytes.count))
            throw fail(.sync)
        }
        inode.settle()
    }

    package func reserve(_ range: Range<Int>, of file: File) throws(DiskFailure) {
        if try begin(.reserve) { throw fail(.reserve) }
        try takeRoom(.reserve, of: file.inode, upTo: range.upperBound)
        file.inode.reservedByteCount = max(file.inode.reservedByteCount, range.upperBound)
    }

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

    package func rename(_ oldName: String, to newName: String) throws(DiskFailure) {
        if try begin(.rename) { throw fail(.rename) }
        guard let inode = names[oldName] else {
            throw DiskFailure(
                operation: .rename, path: oldName, errorNumber: 2, errorText: "No such file or directory")
        }
        change(.rename(oldName, newName, inode))
    }

    package func remove(_ name: String) throws(DiskFailure) {
        if try begin(.remove) { throw fail(.remove) }
        change(.remove(name))
    }

    package func syncDirectory() throws(DiskFailure) {
        if try begin(.syncDirectory) { throw fail(.syncDirectory) }
        nameHistory = [names]
        nameChanges = []
    }

    package func lock(_ name: String) throws(DiskFailure) -> LockOutcome<File> {
        if try begin(.lock) { throw fail(.lock) }
        try takeDescriptor(.lock)
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

    /// A sync: the platter has it all, except what an earlier failed sync let go.
    func settle() {
        let size = SimulatedDisk.sectorByteCount
        if durable.count > bytes.count { durable.removeLast(durable.count - bytes.count) }
        if durable.count < bytes.count {
            durable.append(contentsOf: repeatElement(0, count: bytes.count - durable.count))
        }
        for sector in dirtySectors {
            let range = min(sector * size, bytes.count)..<min(bytes.count, (sector + 1) * size)
            durable.replaceSubrange(range, with: bytes[range])
        }
        dirtySectors = []
    }

    /// A power cut: of every dirty sector the old, the new, or a part of the new.
    func survive(_ random: inout SeededGenerator) {
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

/// SplitMix64: the same numbers for the same seed, everywhere.
package struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
