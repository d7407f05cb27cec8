import Glibc
import PandoRandom

/// The moments at which operations are due, in nanoseconds, never decreasing. They do not depend on
/// responses, so the time that a slow server makes operations wait is counted (no coordinated omission).
package struct Arrivals: Sendable {
    package enum Pattern: Equatable, Sendable {
        /// Evenly spaced.
        case even(perSecond: Double)
        /// Independent users: gaps of random length, with this average rate.
        case poisson(perSecond: Double)
        /// Groups at the same moment.
        case bursts(of: Int, everyNanoseconds: Int)
    }

    private let pattern: Pattern
    private let start: Int
    private let offset: Double
    private var index = 0
    private var poissonTime = 0.0
    private var random: SeededGenerator
    /// The next operation's moment.
    package private(set) var next: Int

    /// One of several workers' share of a pattern.
    /// - Parameters:
    ///   - pattern: What all workers do together; of bursts, what this one does.
    ///   - start: The moment from which the pattern runs.
    ///   - share: This worker's number, and how many there are.
    ///   - seed: For `poisson`.
    package init(_ pattern: Pattern, start: Int, share: (index: Int, count: Int), seed: UInt64) {
        switch pattern {
        case .even(let rate):
            self.pattern = .even(perSecond: rate / Double(share.count))
            offset = Double(share.index) * 1e9 / rate
        case .poisson(let rate):
            self.pattern = .poisson(perSecond: rate / Double(share.count))
            offset = 0
        case .bursts:
            self.pattern = pattern
            offset = 0
        }
        self.start = start
        random = SeededGenerator(
            seed: seed &+ UInt64(truncatingIfNeeded: share.index) &* 0x9E37_79B9_7F4A_7C15)
        next = start
        if case .poisson = pattern { step() } else { next = moment() }
    }

    /// Removes the next operation if it is due.
    /// - Returns: The moment at which it was due.
    package mutating func take(dueAt now: Int) -> Int? {
        guard next <= now else { return nil }
        let due = next
        step()
        return due
    }

    private mutating func step() {
        index += 1
        if case .poisson(let rate) = pattern {
            poissonTime += -log(random.unit()) * 1e9 / rate
        }
        next = moment()
    }

    private func moment() -> Int {
        switch pattern {
        // From the index each time: rounding does not add up.
        case .even(let rate): start + Int((offset + Double(index) * 1e9 / rate).rounded())
        case .poisson: start + Int(poissonTime.rounded())
        case .bursts(let size, let every): start + index / max(1, size) * every
        }
    }
}

extension SeededGenerator {
    /// The next number above 0, at most 1.
    fileprivate mutating func unit() -> Double { Double((next() >> 11) + 1) / 9_007_199_254_740_992 }
}
