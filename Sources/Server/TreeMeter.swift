import PandoDatabase
import PandoReactor
import PandoStorage
import PandoTime
import PandoTree

/// Counts now and then how large the trees of all databases are, for the metrics, on a thread of its own.
///
/// The databases give it their trees, which costs them no more than a few references; what they write while
/// it counts copies the pages that it changes, as while a checkpoint is written. It counts only where
/// something was written since, and takes at most a hundredth of one processor's time: large trees are
/// counted less often. Its priority is low: it runs when the other threads wait.
final class TreeMeter: Sendable {
    /// The time between two counts, at least.
    private static let interval: Duration = .seconds(10)
    /// The pause after a count, as a multiple of its duration.
    private static let pauseFactor = 100.0
    /// Trees are walked recursively: JSON nests up to 1024 deep.
    private static let stackByteCount = 8 << 20
    private static let niceness = 10

    private let thread: WorkerThread<[Node]>

    /// - Parameter metrics: Gets the sizes; nobody else sets them from now on.
    /// - Throws: ``SocketError`` where the process has no free descriptor or thread.
    init(
        _ databases: DatabaseExecutor, _ databaseMetrics: DatabaseMetrics, _ metrics: StorageMetrics
    ) throws(SocketError) {
        thread = try WorkerThread(
            "pando-measure", stackByteCount: Self.stackByteCount, niceness: Self.niceness)
        let mailbox = thread.mailbox
        try thread.start { queue in
            var pause = Self.interval
            var countedCommits: UInt64?
            var answers: [[Node]] = []
            while true {
                queue.pause(for: pause)
                pause = Self.interval
                if queue.isStopping { return }
                // Before the trees: they hold at least these.
                let commits = databaseMetrics.commits.value
                guard commits != countedCommits else { continue }
                databases.post(.trees { mailbox.post($0) })
                while answers.isEmpty {
                    guard queue.receive(into: &answers), !queue.isStopping else { return }
                }
                let began = MonotonicTime.now
                var size = TreeSize()
                for tree in answers.removeLast() {
                    guard tree.count(into: &size, while: { !queue.isStopping }) else { return }
                }
                metrics.set(size)
                countedCommits = commits
                pause = max(Self.interval, (MonotonicTime.now - began) * Self.pauseFactor)
            }
        }
    }

    /// Gives up the count, and ends the thread.
    func stop() { thread.stop() }
}
