import Glibc
import PandoTime
import Testing

@testable import PandoReactor

@Suite struct ThreadSchedulingTests {
    /// What a new thread sees of itself.
    private struct Slices: Equatable {
        var before: Duration?
        var after: Duration?
    }

    @Test(
        "The time slice of one thread changes",
        .enabled(if: currentTimeSlice() != nil, "the system does not report time slices"),
        arguments: [.microseconds(100), .microseconds(300), .milliseconds(1)] as [Duration])
    func ofOneThread(slice: Duration) throws {
        let before = currentTimeSlice()
        let slices = try onNewThread {
            let before = currentTimeSlice()
            shortenTimeSlice(to: slice)
            return Slices(before: before, after: currentTimeSlice())
        }
        #expect(slices == Slices(before: before, after: slice))
        #expect(currentTimeSlice() == before, "the thread that started it keeps its own")
    }

    @Test(.enabled(if: currentTimeSlice() != nil, "the system does not report time slices"))
    func theNicenessStays() throws {
        let niceness = try onNewThread {
            lowerThreadPriority(to: 7)
            shortenTimeSlice()
            return currentNiceness()
        }
        #expect(niceness == 7)
    }

    private func onNewThread<Result: Sendable>(_ body: @escaping @Sendable () -> Result) throws -> Result {
        let results = Log<Result>()
        let thread = try NamedThread.start("scheduling") { results.add(body()) }
        thread.join()
        return try #require(results.all.first)
    }
}

/// Of the calling thread: on Linux each has its own.
private func currentNiceness() -> Int32 { getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0) }
