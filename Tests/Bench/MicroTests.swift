import Testing

@testable import PandoBench

/// Benchmarks that nobody runs rot: here each call is made a few times, and must give the right answer.
@Test(arguments: Micro.Subject.allCases) func microBenchmarks(subject: Micro.Subject) throws {
    let timings = try subject.timings(MicroEffort(rounds: 20, counts: false))
    #expect(!timings.isEmpty)
    for timing in timings { #expect(timing.rightCount == timing.rounds, "\(timing.name)") }
}
