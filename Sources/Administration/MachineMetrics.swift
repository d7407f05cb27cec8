import Foundation
import Glibc
import PandoMetrics
import PandoReactor
import PandoStorage
import PandoTime
import Synchronization

/// What the process and its data directory take of the machine. The admin thread looks at it when it is asked
/// for metrics; no other thread does.
package final class MachineMetrics: Sendable {
    let residentBytes = Gauge()
    let freeHeapBytes = Gauge()
    let openDescriptors = Gauge()
    let descriptorLimit = Gauge()
    let cpuMicroseconds = Gauge()
    let diskFreeBytes = Gauge()
    let diskBytes = Gauge()
    let journalFileBytes = Gauge()
    let journalFileCount = Gauge()
    /// When the oldest file of the journal was written last: seconds since 1970; 0 for none.
    let oldestJournalTime = Gauge()
    let checkpointFileBytes = Gauge()
    /// When the newest checkpoint was written: seconds since 1970; 0 for none.
    let newestCheckpointTime = Gauge()
    /// Seconds since 1970.
    let startTime: Int64

    private let directory: String?
    /// When the gauges were set that cost much.
    private let lastLook = Mutex<MonotonicTime?>(nil)

    /// The shortest time between two looks at what takes time and locks: the free blocks of the heap, the
    /// open descriptors, the files of the data directory. Others are as new as the request.
    static let lookInterval: Duration = .seconds(10)

    init(dataDirectory: String?) {
        directory = dataDirectory
        startTime = wallTime() / 1000
    }

    /// Sets the gauges. Some system calls; once in ``lookInterval``, O(files, descriptors and free blocks of
    /// the heap).
    func refresh(at now: MonotonicTime) {
        residentBytes.set(FreedMemory.residentByteCount)
        descriptorLimit.set(PandoReactor.descriptorLimit())
        var usage = rusage()
        if unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 {
            let seconds = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec
            cpuMicroseconds.set(seconds * 1_000_000 + Int(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec))
        }
        let isDue = lastLook.withLock { last in
            if let last, now - last < Self.lookInterval { return false }
            last = now
            return true
        }
        if isDue { look() }
    }

    private func look() {
        freeHeapBytes.set(FreedMemory.byteCount)
        openDescriptors.set(openDescriptorCount())
        if let directory { look(at: directory) }
    }

    private func look(at directory: String) {
        let files = FileManager.default
        if let system = try? files.attributesOfFileSystem(forPath: directory) {
            diskFreeBytes.set((system[.systemFreeSize] as? NSNumber)?.intValue ?? 0)
            diskBytes.set((system[.systemSize] as? NSNumber)?.intValue ?? 0)
        }
        let found = Self.files(in: directory)
        journalFileBytes.set(found.journalByteCount)
        journalFileCount.set(found.journalFileCount)
        oldestJournalTime.set(found.oldestJournalTime)
        checkpointFileBytes.set(found.checkpointByteCount)
        newestCheckpointTime.set(found.newestCheckpointTime)
    }

    package struct Files: Equatable {
        package var journalByteCount = 0
        var journalFileCount = 0
        /// Seconds since 1970; 0 for none.
        var oldestJournalTime = 0
        var checkpointByteCount = 0
        package var newestCheckpointByteCount = 0
        /// Seconds since 1970; 0 for none.
        var newestCheckpointTime = 0
    }

    /// The sizes of the files of a data directory, by their names (architecture, formats on disk). A file
    /// that goes away meanwhile counts nothing.
    package static func files(in directory: String) -> Files {
        var found = Files()
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        // Names sort in the order of timelines and sequences.
        var (newestCheckpoint, oldestSegment) = ("", "")
        for name in names {
            let isCheckpoint = name.hasPrefix("checkpoint-") && name.hasSuffix(".chk")
            guard isCheckpoint || name.hasPrefix("journal-") && name.hasSuffix(".log"),
                let attributes = try? FileManager.default.attributesOfItem(atPath: directory + "/" + name)
            else { continue }
            let byteCount = (attributes[.size] as? NSNumber)?.intValue ?? 0
            let date = attributes[.modificationDate] as? Date
            let time = date.map { Int($0.timeIntervalSince1970) } ?? 0
            guard isCheckpoint else {
                if oldestSegment.isEmpty || name < oldestSegment {
                    (oldestSegment, found.oldestJournalTime) = (name, time)
                }
                found.journalByteCount += byteCount
                found.journalFileCount += 1
                continue
            }
            found.checkpointByteCount += byteCount
            if name > newestCheckpoint {
                newestCheckpoint = name
                found.newestCheckpointByteCount = byteCount
                found.newestCheckpointTime = time
            }
        }
        return found
    }
}
