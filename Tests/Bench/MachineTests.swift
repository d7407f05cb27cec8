import PandoJournal
import PandoReactor
import PandoSimulatedDisk
import Testing

@testable import PandoBench

@Suite struct MachineTests {
    @Test(arguments: [nil, Duration.microseconds(50)]) func syncsAreCountedAndTheFileIsGone(_ interval: Duration?) throws {
        let disk = SimulatedDisk()
        let times = try Machine.syncTimes(on: disk, for: .milliseconds(2), every: interval)
        #expect(times.count > 0)
        #expect(times.percentile(1) == times.maximum)
        // Each moment has its sync, however late it comes.
        if interval != nil { #expect(times.count == 40) }
        #expect(try disk.list().isEmpty)
    }

    @Test func failureOfTheDiskIsTold() {
        let disk = SimulatedDisk(failing: 20)
        #expect(throws: DiskFailure.self) { try Machine.syncTimes(on: disk, for: .seconds(60), every: nil) }
    }

    @Test func stallsAreThoseOfAllThreads() throws {
        var stalls = Stalls()
        #expect(stalls.text(over: 1).hasPrefix("never"))
        for milliseconds in [1, 4, 2] { stalls.add(.milliseconds(milliseconds)) }
        #expect(
            stalls.text(over: 0.5)
                == "kept waiting 3 times for longer than 0.1 ms, 1.40 % of the time, 4.0 ms at the longest")
        #expect(try Stalls.measured(for: .milliseconds(5), threads: 2).longest < .seconds(60))
    }
}
