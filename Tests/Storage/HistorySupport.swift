import Glibc
import PandoBytes
import PandoJournal
import PandoRandom
import PandoSimulatedDisk
import PandoStorage
import Synchronization

/// A disk on which something happens once, after so many calls.
///
/// `@unchecked Sendable`: used by one thread.
final class ChangingDisk: ForwardingDisk, @unchecked Sendable {
    let base: SimulatedDisk
    private var callsLeft: Int
    private let change: () -> Void

    init(_ disk: SimulatedDisk, after callCount: Int, _ change: @escaping () -> Void) {
        base = disk
        callsLeft = callCount
        self.change = change
    }

    private func count() {
        if callsLeft == 0 { change() }
        callsLeft -= 1
    }

    func list() throws(DiskFailure) -> [String] {
        count()
        return try base.list()
    }
    func open(_ name: String, _ mode: OpenMode) throws(DiskFailure) -> SimulatedDisk.File {
        count()
        return try base.open(name, mode)
    }
    func byteCount(of file: SimulatedDisk.File) throws(DiskFailure) -> Int {
        count()
        return try base.byteCount(of: file)
    }
    @unsafe func read(
        _ file: SimulatedDisk.File, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(DiskFailure) -> Int {
        count()
        return try unsafe base.read(file, at: offset, into: buffer)
    }
}

/// Holds a thread until it is opened.
final class Gate: Sendable {
    private let isOpen = Atomic<Bool>(false)

    func open() { isOpen.store(true, ordering: .sequentiallyConsistent) }

    func wait() { while !isOpen.load(ordering: .sequentiallyConsistent) { yieldThread() } }
}

/// Answers of another thread.
final class Answers: Sendable {
    private let answers = Mutex<[Result<HistoryResult, HistoryFailure>]>([])

    func append(_ answer: Result<HistoryResult, HistoryFailure>) { answers.withLock { $0.append(answer) } }

    func count(where isCounted: (Result<HistoryResult, HistoryFailure>) -> Bool) -> Int {
        answers.withLock { $0.count(where: isCounted) }
    }

    /// Returns once there are so many.
    func wait(until count: Int) { while answers.withLock({ $0.count }) < count { yieldThread() } }
}

/// Lets other threads run.
private func yieldThread() { _ = sched_yield() }

extension SeededGenerator {
    mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }

    mutating func pick<Element>(_ choices: [Element]) -> Element {
        choices[Int.random(in: 0..<choices.count, using: &self)]
    }
}
