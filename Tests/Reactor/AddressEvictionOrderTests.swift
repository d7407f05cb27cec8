import PandoRandom
import Testing

@testable import PandoReactor

@Suite struct AddressEvictionOrderTests {
    private func network(_ number: Int) -> AddressNetwork? {
        SocketAddress("10.0.0.\(number)", port: 0).map { AddressNetwork($0) }
    }

    @Test func theAddressThatHasMostLosesItsOldestFirst() {
        var order = AddressEvictionOrder()
        #expect(order.first == nil)
        order.append(5, of: network(1))
        order.append(3, of: network(2))
        order.append(9, of: network(2))
        order.append(1, of: nil)
        var taken: [Int] = []
        while let first = order.first {
            taken.append(first)
            order.remove(first)
        }
        #expect(taken == [3, 5, 1, 9], "then all have one, and those that have it longest come first")
        #expect(order.count == 0)
    }

    /// One address takes many places: the others keep theirs.
    @Test func floodOfOneAddressEndsItsOwn() {
        var order = AddressEvictionOrder()
        for slot in 0..<100 { order.append(slot, of: network(slot)) }
        for slot in 100..<10_000 {
            order.append(slot, of: network(200))
            if order.count > 150, let first = order.first {
                #expect(first >= 100)
                order.remove(first)
            }
        }
        for slot in 0..<100 { order.append(slot, of: network(slot)) }
        #expect(order.count == 150, "they were there all the time")
    }

    /// Against an array of pairs.
    @Test(arguments: 0..<8 as Range<UInt64>)
    func agreesWithAnArray(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var order = AddressEvictionOrder()
        var model: [(slot: Int, owner: Int)] = []
        for _ in 0..<3000 {
            let slot = Int.random(in: 0..<40, using: &random)
            model.removeAll { $0.slot == slot }
            if Int.random(in: 0..<3, using: &random) > 0 {
                let owner = Int.random(in: 0..<6, using: &random)
                order.append(slot, of: owner == 0 ? nil : network(owner))
                model.append((slot, owner))
            } else {
                order.remove(slot)
            }
            order.checkInvariants()
            #expect(order.count == model.count)
            let counts = Dictionary(grouping: model, by: \.owner).mapValues(\.count)
            let most = counts.values.max() ?? 0
            let oldest = counts.filter { $0.value == most }.keys.compactMap { owner in
                model.first { $0.owner == owner }?.slot
            }
            #expect(order.first.map { oldest.contains($0) } ?? model.isEmpty)
        }
    }
}
