import PandoTime
import Synchronization
import Testing

@testable import PandoReactor

@Suite struct WorkerThreadTests {
    @Test func messagesOfOneThreadArriveInOrder() throws {
        let worker = try WorkerThread<Int>("worker")
        let log = Log<Int>()
        try worker.start { queue in
            while let message = queue.next() { log.add(message) }
        }
        for number in 0..<10_000 { worker.post(number) }
        worker.stop()
        #expect(log.all == Array(0..<10_000), "all that was posted before stop() is handled")
    }

    @Test func messagesPostedBeforeStartAreHandled() throws {
        let worker = try WorkerThread<Int>("worker")
        let log = Log<Int>()
        #expect(worker.post(1))
        #expect(worker.mailbox.post(2))
        try worker.start { queue in
            while let message = queue.next() { log.add(message) }
        }
        worker.stop()
        #expect(log.all == [1, 2])
    }

    @Test func postsAfterTheBodyReturnedAreRefused() throws {
        let worker = try WorkerThread<Int>("worker", queueLimit: 1)
        try worker.start { queue in
            _ = queue.next()
        }
        #expect(worker.post(1))
        worker.stop()
        #expect(!worker.post(2))
        #expect(!worker.mailbox.post(3))
        #expect(!worker.post(4, reserving: 1))
    }

    @Test func stopMayBeCalledAgainAndBeforeStart() throws {
        let worker = try WorkerThread<Int>("worker")
        worker.stop()
        let log = Log<Int>()
        worker.post(1)
        try worker.start { queue in
            while let message = queue.next() { log.add(message) }
            log.add(-1)
        }
        worker.stop()
        worker.stop()
        #expect(log.all == [1, -1])
    }

    @Test func releasedWorkerStopsItsThread() throws {
        let log = Log<String>()
        do {
            let worker = try WorkerThread<String>("worker")
            try worker.start { queue in
                while let message = queue.next() { log.add(message) }
                log.add("end")
            }
            worker.post("message")
        }
        #expect(log.all == ["message", "end"])
    }

    @Test func bodyThatDropsItsQueueSeesTheStop() throws {
        let worker = try WorkerThread<Int>("worker")
        let started = try WakeupEvent()
        let handled = Atomic<Int>(0)
        try worker.start { queue in
            while let _ = queue.next() {
                handled.add(1, ordering: .relaxed)
                started.signal()
                queue.pause(for: .seconds(3600))
                if queue.isStopping { return }
            }
        }
        for number in 0..<100 { worker.post(number) }
        started.wait()
        worker.stop()
        let handledCount = handled.load(ordering: .relaxed)
        #expect(handledCount == 1, "the pause ended, and the other messages were dropped")
    }

    @Test func pauseIsNotShortenedByMessages() throws {
        let worker = try WorkerThread<Int>("worker")
        let isPausing = try WakeupEvent()
        let log = Log<Duration>()
        try worker.start { queue in
            isPausing.signal()
            let began = MonotonicTime.now
            queue.pause(for: .milliseconds(20))
            log.add(.now - began)
        }
        isPausing.wait()
        while log.all.isEmpty { worker.post(0) }
        worker.stop()
        #expect(log.all[0] >= .milliseconds(20))
    }

    @Test func pausedWorkerGetsTheMessagesOfThePause() throws {
        let worker = try WorkerThread<Int>("worker")
        let mayPost = try WakeupEvent()
        let log = Log<Int>()
        try worker.start { queue in
            mayPost.signal()
            // Uses up the signal of the message.
            queue.pause(for: .milliseconds(20))
            while let message = queue.next() { log.add(message) }
        }
        mayPost.wait()
        worker.post(1)
        #expect(log.wait("the message") { !$0.isEmpty } == [1])
        worker.stop()
    }

    @Test func receiveGivesBatchesSignalsAndTimeouts() throws {
        let worker = try WorkerThread<Int>("worker")
        let log = Log<[Int]>()
        try worker.start { queue in
            var batch: [Int] = []
            _ = queue.receive(into: &batch, timeout: .zero)
            _ = queue.receive(into: &batch, timeout: .milliseconds(1))
            log.add([])
            while queue.receive(into: &batch) {
                log.add(batch)
                batch.removeAll(keepingCapacity: true)
            }
        }
        log.wait("the timeouts") { $0.count == 1 }
        worker.mailbox.post(contentsOf: [1, 2, 3])
        log.wait("the batch") { $0.count == 2 }
        worker.wakeup.signal()
        log.wait("the signal") { $0.count == 3 }
        worker.mailbox.post(contentsOf: [4, 5])
        worker.stop()
        #expect(log.all.filter { !$0.isEmpty } == [[1, 2, 3], [4, 5]])
    }

    /// Otherwise the worker would run an empty turn after each busy period.
    @Test func receivedBatchLeavesNoSignal() throws {
        let worker = try WorkerThread<Int>("worker")
        let log = Log<[Int]>()
        let leftSignals = Log<Bool>()
        let (mailbox, wakeup) = (worker.mailbox, worker.wakeup)
        // Posted by the worker itself, so each message is there before the worker looks for it.
        try worker.start { queue in
            var batch: [Int] = []
            for number in 0..<3 {
                mailbox.post(number)
                _ = queue.receive(into: &batch)
                log.add(batch)
                leftSignals.add(wakeup.clear())
                batch.removeAll(keepingCapacity: true)
            }
        }
        #expect(leftSignals.wait("three batches") { $0.count == 3 } == [false, false, false])
        worker.stop()
        #expect(log.all == [[0], [1], [2]])
    }

    /// What is reserved never exceeds the limit, however fast the poster is.
    @Test(
        arguments: [
            // limit  amounts           because
            (1, [1, 1, 1, 1], "one at a time"),
            (10, [4, 4, 4, 1, 9], "several at a time"),
            (10, [25, 1, 25, 10, 11], "an amount above the limit waits until nothing is reserved"),
        ] as [(Int, [Int], String)])
    func reservationsStayWithinTheLimit(limit: Int, amounts: [Int], reason: String) throws {
        let worker = try WorkerThread<Int>("worker", queueLimit: limit)
        let log = Log<Int>()
        let reserved = Atomic<Int>(0)
        try worker.start { queue in
            while let amount = queue.next() {
                log.add(amount)
                reserved.subtract(amount, ordering: .relaxed)
                queue.release(amount)
            }
        }
        let posted = (0..<200).map { amounts[$0 % amounts.count] }
        for amount in posted {
            #expect(worker.post(amount, reserving: amount))
            let now = reserved.add(amount, ordering: .relaxed).newValue
            #expect(now <= max(limit, amount), "\(reason)")
        }
        worker.stop()
        #expect(log.all == posted)
    }

    @Test func posterThatWaitsForSpaceLearnsThatTheBodyReturned() throws {
        let worker = try WorkerThread<Int>("worker", queueLimit: 1)
        let mayReturn = try WakeupEvent()
        try worker.start { _ in
            mayReturn.wait()
        }
        #expect(worker.post(1, reserving: 1))
        let log = Log<Bool>()
        let poster = try NamedThread.start("poster") { log.add(worker.post(2, reserving: 1)) }
        mayReturn.signal()
        #expect(log.wait("the refusal") { !$0.isEmpty } == [false])
        poster.join()
        worker.stop()
    }

    /// As a thread that waits for a disk which does not answer.
    @Test func workerThatDoesNotEndIsLeftAfterTheDeadline() throws {
        let mayReturn = try WakeupEvent()
        let log = Log<Int>()
        do {
            let worker = try WorkerThread<Int>("worker")
            try worker.start { _ in
                mayReturn.wait()
                log.add(1)
            }
            #expect(!worker.stop(until: .now + .milliseconds(1)))
            // Neither these nor the release of the worker wait.
            worker.stop()
            #expect(worker.stop(until: .now + patience))
            #expect(log.all.isEmpty)
        }
        #expect(log.all.isEmpty)
        mayReturn.signal()
        log.wait("the end of the thread") { $0 == [1] }
    }

    @Test func workerThatEndsInTimeIsJoined() throws {
        let worker = try WorkerThread<Int>("worker")
        let log = Log<Int>()
        worker.post(1)
        try worker.start { queue in
            while let message = queue.next() { log.add(message) }
            log.add(-1)
        }
        #expect(worker.stop(until: .now + patience))
        #expect(log.all == [1, -1])
    }

    @Test func callThatDoesNotReturnIsNotWaitedFor() throws {
        let mayReturn = try WakeupEvent()
        let log = Log<Int>()
        let call = try ThreadCall("call") {
            mayReturn.wait()
            log.add(1)
            return 1
        }
        #expect(call.value(until: .now + .milliseconds(1)) == nil)
        mayReturn.signal()
        log.wait("the end of the call") { $0 == [1] }
        let quick = try ThreadCall("call") { 2 }
        #expect(quick.value(until: .now + patience) == 2)
    }
}
