import PandoRandom
import Testing

@testable import PandoConnections

@Suite struct MessageQueueTests {
    /// As a plain array, in any order of appending and taking; what is counted is what is there.
    @Test(arguments: 0..<20 as Range<UInt64>)
    func queueAgainstAnArray(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var queue = MessageQueue()
        var model: [[UInt8]] = []
        for number in 0..<2000 {
            if Int.random(in: 0..<(number % 400 < 200 ? 3 : 6), using: &random) < 2 {
                let message = [UInt8](
                    repeating: UInt8(number % 251), count: Int.random(in: 0...50, using: &random))
                queue.append(message)
                model.append(message)
            } else {
                let expected = model.isEmpty ? nil : model.removeFirst()
                #expect(queue.removeFirst() == expected, "seed \(seed)")
            }
            #expect(queue.isEmpty == model.isEmpty)
            #expect(queue.byteCount == model.reduce(0) { $0 + $1.count + 64 })
        }
        queue.removeAll()
        #expect(queue.isEmpty && queue.byteCount == 0 && queue.removeFirst() == nil)
    }

    @Test(
        arguments: [
            // messages   bytes of each   over the limit   because
            (1, 16 << 20, false, "one message may be as large as messages may be"),
            (2, 600 << 10, true, "two are over a mebibyte"),
            (2, 500 << 10, false, "two are not"),
            (1024, 1, false, "so many small ones"),
            (1025, 1, true, "one more"),
        ] as [(Int, Int, Bool, String)])
    func limits(count: Int, byteCount: Int, isOver: Bool, because: String) {
        var queue = MessageQueue()
        for _ in 0..<count { queue.append([UInt8](repeating: 0, count: byteCount)) }
        #expect(queue.isOverLimit == isOver, "\(because)")
    }
}
