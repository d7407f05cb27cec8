import PandoDatabase
import PandoReactor
import PandoStorage
import PandoTime
import PandoTree

/// Counts now and then how large the trees of all databases are, for the metrics, on a thread of its own
/// (``TreeCountSchedule``).
///
/// The databases give it their trees, O(databases); what they write while it counts copies the pages that it
/// changes, as while a checkpoint is written. What they have removed meanwhile, the last reference to which
/// is then here, is freed a part at a time. Its niceness is 10: busy threads get most of the processor time.
final class TreeMeter: Sendable {
    /// Trees are walked recursively: JSON nests up to 1024 deep.
    private static let stackByteCount = 8 << 20
    private static let niceness = 10

    private let thread: WorkerThread<[Node]>

    /// - Parameter metrics: Gets the sizes, which nothing else may set from now on.
    /// - Throws: ``SocketError`` where the process has no free descriptor or thread.
    init(
        _ databases: DatabaseExecutor, _ databaseMetrics: DatabaseMetrics, _ metrics: StorageMetrics
    ) throws(SocketError) {
        thread = try WorkerThread(
            "pando-measure", stackByteCount: Self.stackByteCount, niceness: Self.niceness)
        let mailbox = thread.mailbox
        try thread.start { queue in
            var schedule = TreeCountSchedule()
            var releaser = MemoryReleaser()
            var answers: [[Node]] = []
            while true {
                queue.pause(for: schedule.pause)
                if queue.isStopping { return }
                let commitCount = databaseMetrics.commits.value
                guard schedule.isDue(commitCount: commitCount) else { continue }
                databases.post(.trees { mailbox.post($0) })
                while answers.isEmpty {
                    guard queue.receive(into: &answers), !queue.isStopping else { return }
                }
                let began = MonotonicTime.now
                var size = TreeSize()
                var trees = answers.removeLast()
                while let tree = trees.popLast() {
                    guard tree.count(into: &size, while: { !queue.isStopping }) else { return }
                    // Without writes since, the databases hold all of it.
                    if databaseMetrics.commits.value != commitCount { releaser.release([consume tree]) }
                }
                metrics.set(size)
                schedule.counted(commitCount: commitCount, in: MonotonicTime.now - began)
            }
        }
    }

    /// Gives up the count, and ends the thread.
    func stop() { thread.stop() }
}
