import Glibc
import PandoTime
import Synchronization
import Testing

@testable import PandoReactor

@Suite struct MailboxTests {
    @Test func burstsOfSeveralThreadsArriveOnceAndInOrder() throws {
        let loop = try EventLoop()
        let log = Log<(thread: Int, number: Int)>()
        let batches = Atomic<Int>(0)
        let mailbox = loop.mailbox(of: (thread: Int, number: Int).self) { batch in
            batches.add(1, ordering: .relaxed)
            for message in batch { log.add(message) }
        }
        let loopThread = try NamedThread.start("loop") { loop.run() }
        let writers = try (0..<4).map { thread in
            try NamedThread.start("writer") {
                for number in 0..<5000 { mailbox.post((thread, number)) }
            }
        }
        for writer in writers { writer.join() }
        let all = log.wait("all messages") { $0.count == 20_000 }
        for thread in 0..<4 {
            #expect(all.filter { $0.thread == thread }.map(\.number) == Array(0..<5000))
        }
        loop.stop()
        loopThread.join()
        #expect(
            loop.wakeup.wakeupCount <= UInt64(batches.load(ordering: .relaxed)) + 2,
            "more wake-ups than batches: bursts were not gathered")
    }

    @Test func burstWhileTheLoopIsBusyNeedsNoSystemCall() throws {
        let loop = try EventLoop()
        let log = Log<Int>()
        let mailbox = loop.mailbox(of: Int.self) { batch in
            log.add(batch.count)
        }
        let isBusy = try WakeupEvent()
        let mayGoOn = try WakeupEvent()
        let thread = try NamedThread.start("loop") { loop.run() }
        loop.submit {
            isBusy.signal()
            mayGoOn.wait()
        }
        isBusy.wait()
        let before = loop.wakeup.wakeupCount
        for number in 0..<10_000 { mailbox.post(number) }
        #expect(loop.wakeup.wakeupCount == before, "the owner is awake: no signal needs a system call")
        mayGoOn.signal()
        log.wait("all messages") { $0.reduce(0, +) == 10_000 }
        loop.stop()
        thread.join()
    }

    @Test func sleepingOwnerIsWokenOncePerBurst() throws {
        let wakeup = try WakeupEvent()
        let mailbox = Mailbox<Int>(signalling: wakeup)
        // As the owner does before it sleeps.
        #expect(wakeup.prepareToSleep())
        for number in 0..<1000 { mailbox.post(number) }
        #expect(wakeup.wakeupCount == 1)
        #expect(wakeup.wait(timeout: patience))
        var batch: [Int] = []
        mailbox.drain(into: &batch)
        #expect(batch == Array(0..<1000))
    }

    @Test func movedMessagesKeepTheirOrder() throws {
        let mailbox = Mailbox<Int>(signalling: try WakeupEvent())
        var (batch, expected): ([Int], [Int]) = ([], [])
        var moved: [Int] = []
        for round in 0..<100 {
            for _ in 0..<(1 + round % 3) {
                let new = (0..<(round % 5)).map { expected.count + $0 }
                expected += new
                moved += new
                #expect(mailbox.post(movingFrom: &moved) && moved.isEmpty)
            }
            if round % 2 == 1 {
                mailbox.drain(into: &batch)
                #expect(batch == expected)
                batch.removeAll(keepingCapacity: true)
                expected = []
            }
        }
    }

    @Test func postsBeforeRunAreDeliveredAndAfterStopRefused() throws {
        let loop = try EventLoop()
        let log = Log<Int>()
        let early = Mailbox<Int>(signalling: loop.wakeup)
        #expect(early.post(1), "no handler is attached yet")
        loop.attach(early) { batch in
            for message in batch { log.add(message) }
        }
        #expect(early.post(2))
        #expect(early.post(contentsOf: [3, 4]))
        let thread = try NamedThread.start("loop") { loop.run() }
        #expect(early.post(5))
        loop.stop()
        thread.join()
        #expect(log.all == [1, 2, 3, 4, 5], "what was posted before stop() is delivered")
        #expect(!early.post(6))
        var refused = [7]
        #expect(!early.post(movingFrom: &refused) && refused.isEmpty)
        #expect(!loop.submit {})
        loop.stop()
    }

    @Test func waitReturnsOncePerSignal() throws {
        let wakeup = try WakeupEvent()
        #expect(!wakeup.wait(timeout: .milliseconds(1)), "there was no signal")
        wakeup.signal()
        wakeup.signal()
        #expect(wakeup.wait(), "signalled before the wait")
        #expect(!wakeup.wait(timeout: .zero), "two signals are one")

        let mailbox = Mailbox<Int>(signalling: wakeup)
        let thread = try NamedThread.start("writer") {
            for number in 0..<20_000 { mailbox.post(number) }
        }
        var (seen, batch): ([Int], [Int]) = ([], [])
        while seen.count < 20_000 {
            guard wakeup.wait(timeout: patience) else { break }
            mailbox.drain(into: &batch)
            seen += batch
            batch.removeAll(keepingCapacity: true)
        }
        thread.join()
        #expect(seen == Array(0..<20_000))
    }

    /// However late the loop's tick is: a timer that is scheduled in another's handler fires after all that
    /// were due with it.
    @Test func timersFireInOrderAndCanBeCancelledByEachOther() throws {
        let loop = try EventLoop()
        let log = Log<String>()
        let deadline = loop.now + .milliseconds(5)
        let tokens = Mutex<[TimerToken]>([])
        let endsAt = Mutex(deadline)
        loop.schedule(after: .seconds(3600)) { log.add("much too early") }
        loop.schedule(at: deadline) {
            log.add("first")
            for token in tokens.withLock({ $0 }) { loop.cancel(token) }
            loop.schedule(at: deadline) {
                log.add("scheduled in the past")
                endsAt.withLock { $0 = .now + .milliseconds(20) }
                loop.schedule(at: endsAt.withLock { $0 }) {
                    log.add("late")
                    loop.stop()
                }
            }
        }
        tokens.withLock { $0 = [loop.schedule(at: deadline) { log.add("cancelled in the same tick") }] }
        loop.schedule(at: deadline) { log.add("second") }
        loop.run()
        #expect(log.all == ["first", "second", "scheduled in the past", "late"])
        #expect(MonotonicTime.now >= endsAt.withLock { $0 })
    }

    @Test func signalsArriveOnTheLoop() throws {
        let loop = try EventLoop()
        let log = Log<Signal>()
        let thread = try NamedThread.start("loop") {
            // In this thread only: the test process keeps its own signals. `raise` sends to the calling
            // thread.
            Signals.block()
            loop.run()
        }
        loop.submit {
            do {
                try Signals(on: loop) { log.add($0) }
                raise(SIGHUP)
                raise(SIGTERM)
            } catch { Issue.record(error) }
        }
        let seen = log.wait("both signals") { $0.count == 2 }
        #expect(Set(seen) == [.hangUp, .terminate])
        loop.stop()
        thread.join()
    }
}
