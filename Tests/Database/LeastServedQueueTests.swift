import PandoRandom
import Testing

@testable import PandoDatabase

/// Which job is next, in slices of a virtual clock.
@Suite struct LeastServedQueueTests {
    private typealias Queue = LeastServedQueue<String, Int, Int>

    /// Does slices of 5000 units of work, each in one tick of the clock. A job is a number of slices.
    private struct Worker {
        var queue = Queue(forgottenWork: 1)
        var left: [Int: Int] = [:]
        var time = 0
        var done: [(flow: Int, time: Int)] = []

        mutating func add(_ flow: Int, of group: String = "one", slices: Int) {
            let job = left.count
            left[job] = slices
            queue.append(job, to: flow, of: group)
        }

        /// - Returns: The flow whose job had the slice.
        @discardableResult
        mutating func doSlice() -> Int? {
            guard let (flow, job) = queue.next() else { return nil }
            time += 1
            left[job, default: 1] -= 1
            let isDone = left[job] == 0
            if isDone { done.append((flow, time)) }
            queue.finish(work: 5_000, isDone: isDone)
            queue.advance(toPeriod: time / 400)
            if left.count < 200 { queue.checkInvariants() }
            return flow
        }
    }

    /// Busy sessions always have a job of 30 slices; one that asks for a slice now and then waits for the
    /// slice under way, and one more.
    @Test(arguments: [1, 8, 50, 400]) func flowWithLittleWorkWaitsForFewSlices(busyCount: Int) {
        var worker = Worker()
        for flow in 1...busyCount { worker.add(flow, slices: 30) }
        // Each has had something.
        for _ in 0..<busyCount * 4 {
            if let flow = worker.doSlice(), worker.done.last?.time == worker.time {
                worker.add(flow, slices: 30)
            }
        }
        for _ in 0..<20 {
            worker.add(0, slices: 1)
            let began = worker.time
            while worker.done.last?.flow != 0 || worker.done.last?.time != worker.time {
                guard let flow = worker.doSlice() else { break }
                if flow != 0, worker.done.last?.time == worker.time { worker.add(flow, slices: 30) }
            }
            #expect(worker.time - began <= 3)
            // Before it asks again the others have their share.
            for _ in 0..<busyCount * 8 + 400 {
                if let flow = worker.doSlice(), worker.done.last?.time == worker.time {
                    worker.add(flow, slices: 30)
                }
            }
        }
    }

    /// A client that opens new sessions for its jobs delays others of its address, and no other address.
    @Test func newSessionsOfOneAddressDelayNoOther() {
        var worker = Worker()
        for flow in 1...300 { worker.add(flow, of: "many", slices: 30) }
        for _ in 0..<10 { worker.doSlice() }
        worker.add(0, of: "other", slices: 2)
        let began = worker.time
        while worker.done.last?.flow != 0 { worker.doSlice() }
        #expect(worker.time - began <= 4)
    }

    /// Whatever comes, a long job ends: each fourth slice is of the oldest.
    @Test func longJobEndsWhileNewSessionsCome() {
        var worker = Worker()
        worker.add(0, slices: 1000)
        for _ in 0..<100 { worker.doSlice() }
        for flow in 1...4000 {
            worker.add(flow, slices: 1)
            worker.doSlice()
        }
        #expect(worker.done.contains { $0.flow == 0 })
    }

    @Test func equalJobsEndOneAfterTheOther() throws {
        var worker = Worker()
        for flow in 0..<20 { worker.add(flow, slices: 32) }
        while worker.doSlice() != nil {}
        #expect(worker.done.count == 20)
        // Half of them are done when seven eighths of the work are: 530 of 640 slices. In turn, slice by
        // slice, none would be done before the 621st.
        #expect(worker.done[9].time <= 20 * 32 * 7 / 8)
    }

    @Test func jobsOfOneFlowKeepTheirOrder() {
        var queue = Queue(forgottenWork: 1)
        var generator = SeededGenerator(seed: 7)
        var served: [Int: [Int]] = [:]
        for job in 0..<2000 { queue.append(job, to: job % 7, of: "g\(job % 3)") }
        while let (flow, job) = queue.next() {
            let isDone = Bool.random(using: &generator)
            if isDone { served[flow, default: []].append(job) }
            queue.finish(work: Int.random(in: 0..<1000, using: &generator), isDone: isDone)
        }
        for (flow, jobs) in served { #expect(jobs == Array(stride(from: flow, to: 2000, by: 7))) }
        #expect(served.count == 7 && queue.isEmpty)
    }

    /// After some seconds what a flow was served makes no difference, and nothing is remembered of it.
    @Test func servedTimeIsForgottenAfterSomeSeconds() {
        var queue = Queue(forgottenWork: 100)
        queue.append(1, to: 1, of: "a")
        _ = queue.next()
        queue.finish(work: 100_000, isDone: true)
        #expect(queue.accountCount == 2)
        queue.advance(toPeriod: 9)
        #expect(queue.accountCount == 2)
        queue.advance(toPeriod: 10)
        #expect(queue.accountCount == 0)
    }

    /// Also when the clock jumps, as at the beginning, the order stays.
    @Test(arguments: [1, 600, 5000, 1 << 40]) func clockMayJump(periods: Int) {
        var queue = Queue(forgottenWork: 1)
        for flow in 0..<5 { queue.append(flow, to: flow, of: "a") }
        for period in [0, periods, periods + 1, 2 * periods + 600] {
            queue.advance(toPeriod: period)
            guard queue.next() != nil else { break }
            queue.finish(work: 1000, isDone: false)
            queue.checkInvariants()
        }
        var served: Set<Int> = []
        while let (flow, _) = queue.next() {
            served.insert(flow)
            queue.finish(work: 1000, isDone: true)
        }
        #expect(served.count == 5)
    }

    @Test(arguments: 0..<8) func tablesAgree(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var queue = Queue(forgottenWork: 50)
        var waiting: [Int: [Int]] = [:]
        for step in 0..<3000 {
            let flow = Int.random(in: 0..<12, using: &generator)
            switch Int.random(in: 0..<10, using: &generator) {
            case 0..<4:
                queue.append(step, to: flow, of: "g\(flow % 4)")
                waiting[flow, default: []].append(step)
            case 4..<8:
                guard let (flow, job) = queue.next() else { break }
                #expect(waiting[flow]?.first == job)
                let isDone = Bool.random(using: &generator)
                if isDone { waiting[flow]?.removeFirst() }
                queue.finish(work: Int.random(in: 0..<500, using: &generator), isDone: isDone)
            case 8:
                queue.drop(flow) { $0.isMultiple(of: 2) }
                waiting[flow]?.removeAll { $0.isMultiple(of: 2) }
            default:
                queue.charge(77, toSharers: [flow, (flow + 4) % 12], of: (flow + 1) % 12)
                queue.advance(toPeriod: step / 20)
            }
            queue.checkInvariants()
            #expect(queue.count == waiting.values.reduce(0) { $0 + $1.count })
        }
    }
}
