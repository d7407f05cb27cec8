import Testing

@testable import PandoBench

/// Benchmarks that nobody runs rot: here each call is made a few times, and must give the right answer.
@Test func ruleBenchmarks() throws {
    let timings = try RulesCase(rounds: 20).timings()
    #expect(timings.count == 4)
    for timing in timings { #expect(timing.rightCount == 20, "\(timing.name)") }
}
