import Glibc
import Testing

@testable import PandoBench

/// What queries and windows cost, counted and not timed: the references that `pando-bench` counts while it
/// finds ten of many children, and while it writes below many windows. Each node that is visited counts some.
///
/// Calls are counted in a process without other threads: see `StallTests.swift`.
@Suite(.serialized, .enabled(if: countsCalls)) struct QueryCostTests {
    /// By benchmark: how often a call counts a reference up.
    private static func retains(_ timings: [Timing]) -> [String: Double] {
        Dictionary(uniqueKeysWithValues: timings.map { ($0.name, $0.retains) })
    }

    private static let effort = MicroEffort(rounds: 1000, counts: true)

    /// A hundred times as many children are no more than a few more pages.
    @Test func tenOfManyChildren() throws {
        let counts = Self.retains(indexTimings(Self.effort))
        for order in ["key", "priority", "value", "number", "text"] {
            let few = try #require(counts["get 10 of 1000 by \(order)"])
            let many = try #require(counts["get 10 of 100000 by \(order)"])
            #expect(few > 0, "nothing was counted")
            #expect(many <= 1.5 * few + 150, "\(order): \(few) of 1000, \(many) of 100000")
        }
    }

    /// A window that a write does not touch costs next to nothing, nor do further listeners to the same one.
    @Test func writeBelowManyWindows() throws {
        let counts = Self.retains(windowTimings(Self.effort))
        func count(_ name: String) throws -> Double {
            try #require(counts["set 1 of 10000, \(name)"], "\(name)")
        }
        let one = try count("1 listen to one top ten")
        #expect(try count("2000 listen to one top ten") <= 1.1 * one)
        // Of 2000 different tens a write touches some four, of the equal values hardly any. To ask each of
        // them would count at least ten references for each.
        for (kind, further) in [("different tens", 15_000.0), ("equal values", 4000)] {
            let (few, many) = (try count("100 listen to \(kind)"), try count("2000 listen to \(kind)"))
            #expect(many <= few + further, "\(kind): \(few) below 100 windows, \(many) below 2000")
        }
        let removal = try #require(counts["remove the first of 10000 from a top ten"])
        #expect(removal <= 3000, "the next one is drawn from the index")
    }
}

/// Whether this process has no other tests.
private var countsCalls: Bool { unsafe getenv("PANDO_COUNTS_CALLS") != nil }
