import PandoRandom
import Testing

@testable import PandoEngine

@Suite struct LinkedQueueTests {
    /// Whatever is added, taken out and removed: it is what an array would be.
    @Test(arguments: 0..<4) func operationsAgainstAnArray(seed: Int) {
        var random = SeededGenerator(seed: seed)
        var queue = LinkedQueue<Int>()
        var model: [(element: Int, place: LinkedQueue<Int>.Place)] = []
        for number in 0..<5000 {
            // It grows, and then becomes empty, again and again.
            let growth = number / 300 % 2 == 0 ? 60 : 30
            if random.chance(growth) {
                model.append((number, queue.append(number)))
            } else if random.chance(50) {
                #expect(queue.popFirst() == model.first?.element)
                if !model.isEmpty { model.removeFirst() }
            } else if !model.isEmpty {
                let removed = model.remove(at: Int.random(in: model.indices, using: &random))
                queue.remove(at: removed.place)
            }
            #expect(queue.count == model.count && queue.isEmpty == model.isEmpty)
            #expect(queue.first == model.first?.element)
            if number % 50 == 0 { #expect(queue.elements == model.map(\.element), "seed \(seed)") }
        }
    }
}
