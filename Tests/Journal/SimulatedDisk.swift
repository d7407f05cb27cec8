import PandoJournal

/// A disk that keeps only what it must. It injects:
/// - power loss before any operation: everything after it fails, until ``losePower(seed:)`` brings the
///   machine back;
/// - what a power cut leaves of unsynced writes: each 512-byte sector new, old or torn inside, independently
///   of the others; the file's size anywhere between; names as they were at some moment since the directory
///   was synced;
/// - one failing operation: a failing write may have written a part; a failing sync loses what it was for,
///   and the next one succeeds as if nothing had happened (as Linux does).
///
/// `@unchecked Sendable`: each test runs on one thread.
final class SimulatedDisk: Disk, @unchecked Sendable {
    final class File: Sendable {
        let inode: Inode
        init(_ inode: Inode) { self.inode = inode }
    }

    /// `@unchecked Sendable`: as the disk.
    final class Inode: @unchecked Sendable {
        /// What every reader sees.
        var bytes: [UInt8] = []
        /// What is on the platter.
        var durable: [UInt8] = []
        /// Where `bytes` and `durable` may differ.
        var dirtySectors: Set<Int> = []
    }

    /// A held lock opens when this goes.
    private final class LockHolder {}

    static let sectorByteCount = 512

    let directory = "/simulated"
    private(set) var operationCount = 0
    private(set) var syncCount = 0
    private(set) var writeCount = 0
    var crashPoint: Int?
    var failingOperation: Int?
    private var hasCrashed = false

    private var names: [String: Inode] = [:]
    /// Every state of the directory since it was last synced, the synced one first.
    private var nameHistory: [[String: Inode]] = [[:]]
    private weak var lockFile: File?

    init(crashingBefore crashPoint: Int? = nil, failing failingOperation: Int? = nil) {
        self.crashPoint = crashPoint
        self.failingOperation = failingOperation
    }

    /// A disk with these files on it, all durable.
    convenience init(files: [String: [UInt8]]) {
        self.init()
        for (name, bytes) in files {
            let inode = Inode()
            inode.bytes = bytes
            inode.durable = bytes
            names[name] = inode
        }
        nameHistory = [names]
    }

    /// What is in each file now.
    var contents: [String: [UInt8]] { names.mapValues(\.bytes) }

    var fileNames: [String] { names.keys.sorted() }

    /// The machine goes off and on again.
    func losePower(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        names = nameHistory[Int.random(in: 0..<nameHistory.count, using: &random)]
        nameHistory = [names]
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
    func killProcess() {
        hasCrashed = false
        crashPoint = nil
        failingOperation = nil
        lockFile = nil
    }

    /// Counts an operation; answers whether it is to fail.
    private func begin(_ operation: String) throws(DiskFailure) -> Bool {
        if hasCrashed || operationCount == crashPoint {
            hasCrashed = true
            throw DiskFailure(operation: operation, path: directory, errorNumber: 5, errorText: "no power")
        }
        operationCount += 1
        return operationCount - 1 == failingOperation
    }

    private func fail(_ operation: String) -> DiskFailure {
        DiskFailure(operation: operation, path: directory, errorNumber: 5, errorText: "Input/output error")
    }

    func list() throws(DiskFailure) -> [String] {
        if try begin("readdir") { throw fail("readdir") }
        return names.keys.sorted()
    }

    func open(_ name: String, _ mode: OpenMode) throws(DiskFailure) -> File {
        if try begin("open") { throw fail("open") }
        if mode == .create {
            let inode = Inode()
            names[name] = inode
            nameHistory.append(names)
            return File(inode)
        }
        guard let inode = names[name] else {
            throw DiskFailure(
                operation: "open", path: name, errorNumber: 2, errorText: "No such file or directory")
        }
        return File(inode)
    }

    func byteCount(of file: File) throws(DiskFailure) -> Int {
        if try begin("fstat") { throw fail("fstat") }
        return file.inode.bytes.count
    }

    @unsafe func read(
        _ file: File, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(DiskFailure) -> Int {
        if try begin("pread") { throw fail("pread") }
        let bytes = file.inode.bytes
        let count = max(0, min(buffer.count, bytes.count - offset))
        // In bounds of both: `count` is the smaller.
        if count > 0 { unsafe buffer.copyBytes(from: bytes[offset..<offset + count]) }
        return count
    }

    func write(_ gathered: GatheredBytes, to file: File, at offset: Int) throws(DiskFailure) {
        let fails = try begin("pwritev")
        writeCount += 1
        let bytes = gathered.array
        file.inode.write(fails ? Array(bytes.prefix(bytes.count / 2)) : bytes, at: offset)
        if fails { throw fail("pwritev") }
    }

    func sync(_ file: File) throws(DiskFailure) {
        let fails = try begin("fdatasync")
        syncCount += 1
        let inode = file.inode
        if fails {
            // The pages are marked clean and never written: the platter keeps what it had. What was cut off
            // stays so.
            inode.dirtySectors = []
            inode.durable = Array(inode.durable.prefix(inode.bytes.count))
            throw fail("fdatasync")
        }
        inode.settle()
    }

    func truncate(_ file: File, to byteCount: Int) throws(DiskFailure) {
        if try begin("ftruncate") { throw fail("ftruncate") }
        let inode = file.inode
        if byteCount < inode.bytes.count {
            let old = inode.bytes.count
            inode.bytes.removeLast(old - byteCount)
            for sector in byteCount / Self.sectorByteCount...old / Self.sectorByteCount {
                inode.dirtySectors.insert(sector)
            }
        }
    }

    func rename(_ oldName: String, to newName: String) throws(DiskFailure) {
        if try begin("rename") { throw fail("rename") }
        names[newName] = names.removeValue(forKey: oldName)
        nameHistory.append(names)
    }

    func remove(_ name: String) throws(DiskFailure) {
        if try begin("unlink") { throw fail("unlink") }
        names[name] = nil
        nameHistory.append(names)
    }

    func syncDirectory() throws(DiskFailure) {
        if try begin("fsync") { throw fail("fsync") }
        nameHistory = [names]
    }

    func lock(_ name: String) throws(DiskFailure) -> LockOutcome<File> {
        if try begin("flock") { throw fail("flock") }
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
        var new = [UInt8](repeating: 0, count: bytes.count)
        for sector in 0..<(bytes.count + size - 1) / size {
            let range = sector * size..<min(bytes.count, (sector + 1) * size)
            let source = dirtySectors.contains(sector) ? bytes : durable
            let available = range.lowerBound..<max(range.lowerBound, min(range.upperBound, source.count))
            new.replaceSubrange(
                available, with: source.count >= available.upperBound ? source[available] : [])
        }
        durable = new
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
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
