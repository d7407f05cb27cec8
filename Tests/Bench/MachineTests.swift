import Glibc
import PandoJournal
import PandoReactor
import PandoSimulatedDisk
import Testing

@testable import PandoBench

@Suite struct MachineTests {
    @Test func everyMomentHasASyncOrIsCountedAsUnserved() throws {
        let disk = SimulatedDisk()
        let (times, unserved) = try Machine.syncTimes(
            on: disk, for: .milliseconds(2), every: .microseconds(50))
        #expect(Int(times.totalCount) + unserved == 40)
        #expect(times.totalCount > 0)
        #expect(try disk.list().isEmpty)
    }

    @Test func syncsOneAfterTheOther() throws {
        let disk = SimulatedDisk()
        let (times, unserved) = try Machine.syncTimes(on: disk, for: .milliseconds(1), every: nil)
        #expect(times.totalCount > 0)
        #expect(unserved == 0)
        #expect(try disk.list().isEmpty)
    }

    @Test func preparedSpace() throws {
        let path = "/tmp/pando-machine-\(UInt64.random(in: 0 ... .max))"
        defer { _ = unsafe rmdir(path) }
        let disk = try SystemDisk(directory: path, create: true)
        let (times, unserved) = try Machine.syncTimes(
            on: disk, for: .milliseconds(1), every: nil, isPrepared: true)
        #expect(times.totalCount > 0)
        #expect(unserved == 0)
        #expect(try disk.list().isEmpty)
    }

    @Test func momentsAfterTwiceTheTimeAreUnserved() throws {
        // Nothing can be done in a nanosecond: two moments are due at once, and their time is over.
        let (times, unserved) = try Machine.syncTimes(
            on: SimulatedDisk(), for: .nanoseconds(2), every: .nanoseconds(1))
        #expect(times.totalCount == 1 && unserved == 1)
    }

    @Test func diskFailureIsThrownAndLeavesNoFile() throws {
        let disk = SimulatedDisk(failing: 20)
        #expect(throws: DiskFailure.self) { try Machine.syncTimes(on: disk, for: .seconds(60), every: nil) }
        #expect(try disk.list().isEmpty)
    }

    @Test func stallsOfAllThreadsAreAddedUp() {
        var stalls = Stalls(threadCount: 2)
        #expect(stalls.text(over: 1).hasPrefix("never"))
        for milliseconds in [1, 4, 2] { stalls.add(.milliseconds(milliseconds)) }
        #expect(
            stalls.text(over: 0.5)
                == "stopped 3 times for longer than 0.1 ms, 0.70 % of the time, 4.0 ms at the longest")
    }

    /// Where every look at the clock counts, what lies between them is all the time of all threads.
    @Test func everyThreadIsMeasured() throws {
        let stalls = try Stalls.measured(for: .milliseconds(5), threads: 3, from: .zero)
        #expect(stalls.threadCount == 3)
        #expect(stalls.count >= 3)
        #expect(stalls.total >= .milliseconds(15) && stalls.longest <= stalls.total)
    }
}
