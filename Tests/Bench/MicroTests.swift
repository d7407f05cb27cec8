import Testing

@testable import PandoBench

/// Runs each benchmark a few times, so that it keeps working; each call must give the right result.
@Test(arguments: Micro.Subject.allCases) func microBenchmarks(subject: Micro.Subject) throws {
    let timings = try subject.timings(MicroEffort(rounds: 20, counts: false))
    #expect(!timings.isEmpty)
    for timing in timings { #expect(timing.rightCount == timing.rounds, "\(timing.name)") }
}
