import Glibc
import PandoReactor
import PandoTime
import PandoTree
import Synchronization
import Testing

@testable import PandoDatabase

/// Which thread frees the values that take long to free.
@Suite struct ReleaseQueueTests {
    /// Says which thread has dropped the last reference to it.
    final class Probe: Sendable {
        let freedBy: FreeingThreads
        init(_ freedBy: FreeingThreads) { self.freedBy = freedBy }
        deinit { freedBy.add() }
    }

    final class FreeingThreads: Sendable {
        private let threads = Mutex<[pthread_t]>([])
        func add() { threads.withLock { $0.append(pthread_self()) } }
        var all: [pthread_t] { threads.withLock { $0 } }
    }

    /// Drops each value on a thread of its own, before the call returns: the thread that gets a value in the
    /// server may be as quick.
    final class QuickReleaser: Sendable {
        private let value = Mutex<(any Sendable)?>(nil)
        private let kinds = Mutex<[String]>([])
        private let thread = Mutex<pthread_t?>(nil)

        /// What was released, in order: `nodes`, or `other`.
        var released: [String] { kinds.withLock { $0 } }
        /// The thread that was the last to release a value.
        var last: pthread_t? { thread.withLock { $0 } }

        func release(_ value: consuming any Sendable) {
            var moved = Optional(consume value)
            let kind = moved is [Node] ? "nodes" : "other"
            kinds.withLock { $0.append(kind) }
            self.value.withLock { $0 = moved.take() }
            let call = try? ThreadCall("releaser") { [self] () -> pthread_t in
                let value = self.value.withLock { $0.take() }
                _ = consume value
                return pthread_self()
            }
            let releaser = call?.value(until: .now + .seconds(60))
            thread.withLock { $0 = releaser }
        }
    }

    @Test func theOtherThreadDropsTheLastReferenceHoweverQuickItIs() throws {
        let (releaser, freedBy) = (QuickReleaser(), FreeingThreads())
        var queue = ReleaseQueue { (value: consuming any Sendable) in releaser.release(consume value) }
        queue.add(Probe(freedBy))
        #expect(freedBy.all == [], "it waits")
        queue.flush()
        let thread = try #require(releaser.last)
        #expect(thread != pthread_self())
        #expect(freedBy.all == [thread])
    }

    @Test func eachIsReleasedOnceInOrderAndNodesLast() {
        let (releaser, freedBy) = (QuickReleaser(), FreeingThreads())
        var queue = ReleaseQueue { (value: consuming any Sendable) in releaser.release(consume value) }
        queue.flush()
        queue.add([Node]())
        queue.flush()
        #expect(releaser.released == [], "nothing waits")
        queue.add([Node.empty])
        queue.add(Probe(freedBy))
        queue.add([Node.empty, .empty])
        queue.add(Probe(freedBy))
        queue.flush()
        #expect(releaser.released == ["other", "other", "nodes", "nodes"])
        #expect(freedBy.all.count == 2 && !freedBy.all.contains(pthread_self()))
        queue.flush()
        #expect(releaser.released.count == 4)
    }
}
