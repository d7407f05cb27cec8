import PandoRandom
import PandoTime
import Testing

@testable import PandoConnections

private let mebibyte = 1 << 20

extension MemoryRelief {
    /// Of these clients.
    fileprivate static func choose(
        from holders: [MemoryHolder], excess: Int, limit: Int, upTo reach: Reach
    ) -> [MemoryHolder] {
        var relief = MemoryRelief(limit: limit)
        for holder in holders { relief.add(holder) }
        return relief.chosen(covering: excess, upTo: reach)
    }
}

@Suite struct MemoryReliefTests {
    /// Clients by index: what each holds, and what it has taken lately.
    @Test(
        arguments: [
            // clients   excess   up to   disconnected   because
            ([(5, .stalled), (9, .stalled)], 1, .large, [1], "the largest first"),
            ([(5, .stalled), (9, .steady)], 1, .large, [0], "a client that takes its output is spared"),
            ([(5, .unknown), (9, .steady)], 1, .large, [0], "also for one that is not known yet"),
            ([(5, .stalled), (9, .unknown)], 1, .large, [0], "one that takes nothing goes before it"),
            (
                [(5, .stalled), (9, .unknown)], 6, .large, [0, 1], "which follows where that does not suffice"
            ),
            ([(5, .stalled), (9, .steady)], 20, .large, [0], "never both at once: it is looked at anew"),
            (
                [(5, .steady), (9, .steady)], 1, .small, [],
                "a client that takes its output is not the next one"
            ),
            ([(5, .steady), (9, .steady)], 1, .steady, [1], "where all take their output, the largest"),
            ([], 1, .steady, [], "no client holds anything"),
        ] as [([(Int, ClientProgress)], Int, MemoryRelief.Reach, [UInt64], String)])
    func chosen(
        clients: [(Int, ClientProgress)], excess: Int, reach: MemoryRelief.Reach, expected: [UInt64],
        because: String
    ) {
        let holders = clients.enumerated().map { index, client in
            MemoryHolder(
                number: UInt64(index), byteCount: client.0 * mebibyte, progress: client.1,
                lastHeard: second(0))
        }
        let chosen = MemoryRelief.choose(
            from: holders, excess: excess * mebibyte, limit: 64, upTo: reach)
        #expect(chosen.map(\.number) == expected, "\(because)")
    }

    @Test func bytesWithoutProgressAreCounted() {
        var relief = MemoryRelief(limit: 1)
        for (byteCount, progress) in [
            (5 * mebibyte, .stalled), (3 * mebibyte, .unknown), (9 * mebibyte, .steady), (1000, .stalled),
        ] as [(Int, ClientProgress)] {
            relief.add(
                MemoryHolder(number: 1, byteCount: byteCount, progress: progress, lastHeard: second(0)))
        }
        #expect(relief.unsteadyByteCount == 8 * mebibyte, "also those that are not kept")
    }

    /// Clients that hold 60 KiB each, the first silent for longest.
    private static func small(_ count: Int) -> [MemoryHolder] {
        (0..<count).map {
            MemoryHolder(
                number: UInt64($0), byteCount: 60 << 10, progress: .unknown, lastHeard: second(Double($0)))
        }
    }

    @Test func smallHoldersWaitUntilTheLimitWasExceededForAWhile() {
        let holders = Self.small(100)
        func chosen(_ reach: MemoryRelief.Reach) -> [UInt64] {
            MemoryRelief.choose(from: holders.reversed(), excess: 100 << 10, limit: 64, upTo: reach).map(
                \.number)
        }
        #expect(chosen(.large) == [])
        #expect(chosen(.small) == [0, 1], "the longest silent first")
    }

    /// A listener never sends anything, and holds its listen and a push that is on its way.
    @Test func silentListenerOutlivesThoseThatHoldMore() {
        let listener = MemoryHolder(number: 1000, byteCount: 700, progress: .unknown, lastHeard: second(-60))
        let others = Self.small(100)
        for excess in [100 << 10, 50 * 60 << 10, 100 * 60 << 10] {
            let chosen = MemoryRelief.choose(
                from: [listener] + others, excess: excess, limit: 101, upTo: .small)
            #expect(!chosen.map(\.number).contains(1000) && !chosen.isEmpty)
        }
    }

    @Test func steadyClientOutlivesManySmallOnes() {
        let steady = MemoryHolder(
            number: 1000, byteCount: 2 * mebibyte, progress: .steady, lastHeard: second(0))
        func chosen(_ smallCount: Int, _ reach: MemoryRelief.Reach) -> [UInt64] {
            MemoryRelief.choose(
                from: Self.small(smallCount) + [steady], excess: mebibyte, limit: 3, upTo: reach
            ).map(\.number)
        }
        #expect(chosen(100, .small) == [0, 1, 2], "they are the excess")
        #expect(chosen(100, .large) == [], "not yet")
        #expect(chosen(3, .small) == [], "they are not the excess, and others were disconnected a moment ago")
        #expect(chosen(3, .steady) == [1000], "they are not the excess")
    }

    /// However many clients there are, and in whatever order they are added, the choice is that of sorting
    /// all of them.
    @Test func theFirstOfManyInAnyOrder() {
        var random = SeededGenerator(seed: 7)
        for count in [0, 1, 7, 8, 9, 15, 16, 17, 100, 1000] {
            let sizes = (0..<count).map { 100_000 + $0 * 10 }
            var holders = sizes.enumerated().map {
                MemoryHolder(
                    number: UInt64($0), byteCount: $1,
                    progress: Bool.random(using: &random) ? .stalled : .unknown,
                    lastHeard: second(0))
            }
            let sorted = holders.sorted { ($0.progress, $1.byteCount) < ($1.progress, $0.byteCount) }
            for _ in 0..<4 {
                holders.shuffle(using: &random)
                let chosen = MemoryRelief.choose(from: holders, excess: .max, limit: 8, upTo: .large)
                #expect(chosen == Array(sorted.prefix(8)))
                var relief = MemoryRelief(limit: 8)
                for holder in holders { relief.add(holder) }
                let largest = relief.largest(covering: .max)
                #expect(largest.map(\.byteCount) == Array(sizes.reversed().prefix(8)))
            }
        }
    }

    @Test func theLargestAreNotRead() {
        var relief = MemoryRelief(limit: 64)
        for (index, (byteCount, progress)) in [
            (3 * mebibyte, .steady), (1 * mebibyte, .stalled), (60 << 10, .unknown), (2 * mebibyte, .unknown),
        ].enumerated() as EnumeratedSequence<[(Int, ClientProgress)]> {
            relief.add(
                MemoryHolder(
                    number: UInt64(index), byteCount: byteCount, progress: progress, lastHeard: second(0)))
        }
        #expect(relief.largest(covering: 1).map(\.number) == [0], "whatever progress they make")
        #expect(relief.largest(covering: 4 * mebibyte).map(\.number) == [0, 3])
        #expect(relief.largest(covering: .max).map(\.number) == [0, 3, 1], "never those that hold little")
    }

    @Test func atMostTheLimitAtATime() {
        let holders = (0..<100).map {
            MemoryHolder(number: UInt64($0), byteCount: mebibyte, progress: .stalled, lastHeard: second(0))
        }
        let chosen = MemoryRelief.choose(
            from: holders, excess: 1000 * mebibyte, limit: 64, upTo: .large)
        #expect(chosen.count == 64)
    }
}

@Suite struct ProgressMonitorTests {
    @Test(
        arguments: [
            // bytes taken at each second   progress   because
            ([], .unknown, "no sample"),
            ([0], .unknown, "one sample"),
            ([0, 90_000], .unknown, "one second is too short: its system's buffers take that"),
            ([0, 90_000, 90_000, 90_000], .steady, "nothing for two seconds may be a pause"),
            ([0, 90_000] + silence(after: 90_000, seconds: 6), .unknown, "the first step may take eight"),
            ([0, 90_000] + silence(after: 90_000, seconds: 7), .stalled, "nothing for longer is none"),
            ([0, 500, 1000], .steady, "the slowest client that is served"),
            ((0...8).map { $0 * 400 }, .stalled, "slower than that"),
            ([0, 60_000, 120_000, 180_000, 240_000], .steady, "a slow download"),
            ([0, 0, 0, 105_472] + silence(after: 105_472, seconds: 200), .steady, "a step after a pause"),
            ([0, 0, 0, 105_472] + silence(after: 105_472, seconds: 211), .stalled, "counts for 211 s"),
            ([0, 0, 0, 9_000_000] + silence(after: 9_000_000, seconds: 240), .stalled, "at most 240 s"),
            (
                [247, 127_223, 127_223, 127_223] + silence(after: 162_039, seconds: 13), .steady,
                "a client of Linux at 10 KB/s: its first step is small, the next one comes after 13 s"
            ),
            (
                [247, 127_223, 127_223, 127_223] + silence(after: 127_223, seconds: 13), .stalled,
                "one that reads nothing"
            ),
            ([0, 0, 105_472] + silence(after: 105_472, seconds: 9), .stalled, "a second is no pause"),
            (
                [0, 6_000_000] + silence(after: 6_000_000, seconds: 9), .stalled,
                "the first bytes fill buffers"
            ),
            (
                [0, 1000, 3_000_000] + silence(after: 3_000_000, seconds: 9), .stalled,
                "they come without a pause"
            ),
        ] as [([Int], ClientProgress, String)])
    func progress(samples: [Int], expected: ClientProgress, because: String) {
        var monitor = ProgressMonitor()
        for (time, byteCount) in samples.enumerated() {
            monitor.note(byteCount, of: .output, at: second(Double(time)))
        }
        #expect(monitor.progress(at: second(Double(max(0, samples.count - 1)))) == expected, "\(because)")
    }

    /// Samples of a client that takes nothing more.
    private static func silence(after byteCount: Int, seconds: Int) -> [Int] {
        Array(repeating: byteCount, count: seconds)
    }

    @Test func inputHasNoSteps() {
        var monitor = ProgressMonitor()
        for (time, byteCount) in ([0, 0, 0, 60_000] + Self.silence(after: 60_000, seconds: 9)).enumerated() {
            monitor.note(byteCount, of: .input, at: second(Double(time)))
        }
        #expect(monitor.progress(at: second(12)) == .stalled)
    }

    /// A client that reads 5 MB at 30 KB/s, says something, and asks for them again.
    @Test func aStepCountsForTheNextOutput() {
        var monitor = ProgressMonitor()
        for (time, byteCount) in [0, 0, 0, 0, 105_472, 105_472].enumerated() {
            monitor.note(byteCount, of: .output, at: second(Double(time)))
        }
        monitor.note(100, of: .input, at: second(9))
        #expect(monitor.progress(at: second(9)) == .unknown, "it says nothing of what is sent")
        monitor.note(105_472, of: .output, at: second(10))
        #expect(monitor.progress(at: second(10)) == .steady)
    }

    /// What the buffers of a client's system take of a new output, long after the last sample, is no step: it
    /// may read nothing from then on.
    @Test func growthBetweenDistantSamplesIsNoStep() {
        var monitor = ProgressMonitor()
        monitor.note(70_000, of: .output, at: second(0))
        monitor.note(200_000, of: .output, at: second(60))
        for time in 61...67 { monitor.note(200_000, of: .output, at: second(Double(time))) }
        #expect(monitor.progress(at: second(67)) == .unknown, "a new output has its time, too")
        monitor.note(200_000, of: .output, at: second(68))
        #expect(monitor.progress(at: second(68)) == .stalled)
    }

    /// A small step behind a large one.
    @Test func aSmallerStepDoesNotShortenALargerOne() {
        var monitor = ProgressMonitor()
        let samples = [0, 0, 0, 0, 105_472, 105_472, 105_472, 105_472, 105_500]
        for time in 0..<60 {
            monitor.note(samples[min(time, samples.count - 1)], of: .output, at: second(Double(time)))
        }
        #expect(monitor.progress(at: second(59)) == .steady)
    }

    @Test func inputIsStalledAfterTwoSeconds() {
        var monitor = ProgressMonitor()
        for time in 0..<3 { monitor.note(60_000, of: .input, at: second(Double(time))) }
        #expect(monitor.progress(at: second(2)) == .stalled)
    }

    @Test func anotherDirectionBeginsAnew() {
        var monitor = ProgressMonitor()
        for time in 0..<5 { monitor.note(time * 1_000_000, of: .input, at: second(Double(time))) }
        #expect(monitor.progress(at: second(4)) == .steady)
        monitor.note(0, of: .output, at: second(5))
        #expect(monitor.progress(at: second(5)) == .unknown, "what it has sent says nothing of what it takes")
    }

    @Test func oldSamplesGiveNoProgress() {
        var monitor = ProgressMonitor()
        monitor.note(0, of: .output, at: second(0))
        monitor.note(1_000_000, of: .output, at: second(60))
        #expect(monitor.progress(at: second(60)) == .unknown)
    }

    @Test func aSampleIsDueOnceASecond() {
        var monitor = ProgressMonitor()
        #expect(monitor.isDue(at: second(0)))
        monitor.note(0, of: .output, at: second(0))
        #expect(!monitor.isDue(at: second(0.5)))
        #expect(monitor.isDue(at: second(1)))
    }
}
