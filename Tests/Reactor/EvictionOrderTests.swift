import PandoRandom
import Testing

@testable import PandoReactor

@Suite struct EvictionOrderTests {
    @Test func silentBeforeIdleAndOldestFirst() {
        var order = EvictionOrder()
        #expect(order.first == nil && order.rank(of: 7) == .none)
        order.append(5, as: .idle)
        order.append(3, as: .silent)
        order.append(9, as: .silent)
        order.append(1, as: .idle)
        #expect(order.silentCount == 2 && order.idleCount == 2)
        var taken: [Int] = []
        while let first = order.first {
            taken.append(first)
            order.remove(first)
        }
        #expect(taken == [3, 9, 5, 1])
        #expect(order.remove(3) == .none, "it is gone")
    }

    /// Against two arrays of slots.
    @Test(arguments: 0..<8 as Range<UInt64>)
    func ordersAgreeWithArrays(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var order = EvictionOrder()
        var silent: [Int] = []
        var idle: [Int] = []
        for _ in 0..<3000 {
            let slot = Int.random(in: 0..<40, using: &random)
            let rank = silent.contains(slot) ? EvictionOrder.Rank.silent : idle.contains(slot) ? .idle : .none
            #expect(order.rank(of: slot) == rank)
            silent.removeAll { $0 == slot }
            idle.removeAll { $0 == slot }
            switch Int.random(in: 0..<4, using: &random) {
            case 0:
                order.append(slot, as: .silent)
                silent.append(slot)
            case 1:
                order.append(slot, as: .idle)
                idle.append(slot)
            default: #expect(order.remove(slot) == rank)
            }
            order.checkInvariants()
            #expect(order.first == silent.first ?? idle.first)
            #expect(order.first(of: .silent) == silent.first && order.first(of: .idle) == idle.first)
            #expect(order.silentCount == silent.count && order.idleCount == idle.count)
        }
    }
}
