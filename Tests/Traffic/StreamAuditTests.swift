import Testing

@testable import PandoTraffic

/// Faults in a stream must be found, with their counts.
@Suite struct StreamAuditTests {
    @Test(
        arguments: [
            // arrived                 last  missing  duplicates  because
            ([1, 2, 3], 3, 0, 0, "all came"),
            ([], 0, 0, 0, "nothing was written"),
            ([1, 3], 3, 1, 0, "2 was left out"),
            ([1, 5], 5, 3, 0, "2, 3 and 4 were left out"),
            ([2], 2, 1, 0, "the first was left out"),
            ([1, 2], 4, 2, 0, "the last two never came"),
            ([], 2, 2, 0, "nothing came"),
            ([1, 2, 2, 3], 3, 0, 1, "2 came twice"),
            ([1, 3, 2], 3, 1, 1, "2 came late: it was missing when 3 came, and is old now"),
            ([1, 2, 1], 2, 0, 1, "an old one came again"),
        ] as [([Int], Int, Int, Int, String)])
    func audit(arrived: [Int], last: Int, missing: Int, duplicates: Int, reason: String) {
        var audit = StreamAudit()
        for number in arrived { _ = audit.arrived(number) }
        _ = audit.finish(last: last)
        #expect(audit.missing == missing && audit.duplicates == duplicates, "\(reason)")
    }

    /// One fault put anywhere into a long stream is one finding.
    @Test func everySingleFaultIsFound() {
        let whole = Array(1...60)
        for index in whole.indices {
            var dropped = whole
            dropped.remove(at: index)
            var doubled = whole
            doubled.insert(whole[index], at: index)
            for (stream, missing, duplicates) in [(whole, 0, 0), (dropped, 1, 0), (doubled, 0, 1)] {
                var audit = StreamAudit()
                for number in stream { _ = audit.arrived(number) }
                _ = audit.finish(last: 60)
                #expect(audit.missing == missing && audit.duplicates == duplicates, "fault at \(index)")
            }
        }
    }

    @Test(
        arguments: [
            // before      after       duplicates  missing   because
            ([1, 2], [5, 6], 0, 0, "what was written meanwhile is not owed"),
            ([1, 2], [2, 3], 0, 0, "the value of now may be the one it had"),
            ([1, 2], [1], 1, 0, "an older one is stale"),
            ([1, 2], [5, 7], 0, 1, "once back, it misses none"),
        ] as [([Int], [Int], Int, Int, String)])
    func absence(before: [Int], after: [Int], duplicates: Int, missing: Int, reason: String) {
        var audit = StreamAudit()
        for number in before { _ = audit.arrivedAfterAbsence(number) }
        audit.resume()
        for number in after { _ = audit.arrivedAfterAbsence(number) }
        #expect(audit.duplicates == duplicates && audit.missing == missing, "\(reason)")
    }

    @Test func findingsAddUp() {
        var one = Findings()
        #expect(one.isClean)
        one.add(\.missing, 3, "three")
        var two = Findings()
        two.add(\.wrong, "one")
        one.merge(two)
        #expect(one.total == 4 && !one.isClean && one.examples == ["three", "one"])
        for _ in 0..<1000 { one.add(\.refused, "again") }
        #expect(one.refused == 1000 && one.examples.count <= 8)
    }

    @Test func streamAndNumberArePackedIntoOneInteger() {
        for (stream, number) in [(0, 1), (7, 999_999_999), (9_999_999, 5)] {
            let parts = Stream.parts(Stream.sequence(stream, number))
            #expect(parts.stream == stream && parts.number == number)
        }
    }
}
