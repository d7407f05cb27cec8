import COperatingSystem
import Testing

@testable import PandoReactor

@Suite struct DescriptorBudgetTests {
    /// Descriptors that connections cannot use, with 3 open at start and one loop.
    static let kept = 3 + 32 + 3 + 64 + 16 + 8

    @Test(
        arguments: [
            // limit, loops, other ports, ceiling (nil: refused), because
            (20_000, 1, 0, 20_000 - kept, "the usual"),
            (20_000, 8, 0, 20_000 - kept - 21, "three more for each loop"),
            (20_000, 1, 130, 20_000 - kept - 130, "an admin port, and one that redirects"),
            (kept + 32, 1, 0, 32, "just enough"),
            (kept + 31, 1, 0, nil, "one less"),
            (0, 1, 0, nil, "none at all"),
            (Int(Int32.max), 1, 0, 1 << 23, "a container may have more than there are slots"),
        ] as [(Int, Int, Int, Int?, String)])
    func ceiling(limit: Int, loopCount: Int, otherPortCount: Int, expected: Int?, reason: String) throws {
        do throws(TooFewDescriptors) {
            let budget = try DescriptorBudget(
                limit: limit, openCount: 3, loopCount: loopCount, otherPortCount: otherPortCount)
            #expect(budget.connectionCeiling == expected, "\(reason)")
            #expect(budget.description.hasPrefix("at most \(budget.connectionCeiling) clients"))
        } catch {
            #expect(expected == nil, "\(reason)")
            #expect(error == TooFewDescriptors(limit: limit, minimum: Self.kept + 32))
            #expect(error.description.contains("needs at least \(Self.kept + 32)"))
        }
    }

    /// Descriptors are counted as the process has them.
    @Test func openDescriptorsAreCounted() throws {
        #expect(openDescriptorCount() >= 3)
        #expect(descriptorLimit() > openDescriptorCount())
    }
}
