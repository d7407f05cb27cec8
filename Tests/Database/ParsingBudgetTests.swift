import Testing

@testable import PandoDatabase
@testable import PandoReactor

/// What parsed requests take, until they are finished.
@Suite struct ParsingBudgetTests {
    @Test func oneIsAlwaysParsedAndFurtherOnesWait() throws {
        let budget = ParsingBudget(byteLimit: 1000)
        let wakeup = try WakeupEvent()
        budget.wake(wakeup)
        #expect(!budget.isExhausted)
        var large: ParsingBudget.Grant? = budget.grant(forTextOf: 1 << 20)
        #expect(budget.isExhausted && budget.byteCount == 16 << 20)
        var small: ParsingBudget.Grant? = budget.grant(forTextOf: 10)
        small = nil
        #expect(small == nil && !wakeup.clear(), "nothing changes for those that wait")
        large = nil
        #expect(large == nil && !budget.isExhausted && budget.byteCount == 0)
        #expect(wakeup.clear(), "those that wait are woken")
    }

    @Test func hugeSizesDoNotOverflow() {
        let budget = ParsingBudget(byteLimit: 1)
        let grants = (0..<1000).map { _ in budget.grant(forTextOf: .max) }
        #expect(budget.isExhausted && grants.count == 1000)
    }
}
