import PandoEngine
import PandoRandom
import Testing

@testable import PandoLoops

@Suite struct BodyQueueTests {
    /// Bodies as `session: bytes`, in the order in which they come; the quantum is 10 bytes.
    @Test(
        arguments: [
            // bodies   order of the sessions   because
            ([], [], "nothing waits"),
            ([(1, 10), (2, 10), (3, 10)], [1, 2, 3], "equal ones in the order in which they came"),
            ([(1, 30), (2, 10), (3, 10)], [2, 3, 1], "small ones do not wait behind a large one"),
            (
                [(1, 20), (2, 10), (2, 10), (2, 10)], [2, 1, 2, 2],
                "nor a large one behind all small ones of another"
            ),
            ([(1, 5), (1, 5), (1, 5), (2, 5)], [1, 1, 2, 1], "a session's small ones share its quantum"),
            ([(1, 0), (2, 0)], [1, 2], "empty ones have their turn"),
        ] as [([(UInt64, Int)], [UInt64], String)])
    func order(bodies: [(UInt64, Int)], expected: [UInt64], because: String) {
        var queue = BodyQueue<UInt64>(quantum: 10)
        for (session, byteCount) in bodies {
            queue.append(session, byteCount: byteCount, of: SessionID(session))
        }
        var order: [UInt64] = []
        while let session = queue.removeFirst() { order.append(session) }
        #expect(order == expected, "\(because)")
        #expect(queue.isEmpty)
    }

    /// While others send small bodies without end, a large one waits for no more than its quanta times
    /// theirs.
    @Test(arguments: 0..<8 as Range<UInt64>)
    func largeBodyIsNotStarved(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var queue = BodyQueue<UInt64>(quantum: 100)
        let (others, largeByteCount) = (20, 2000)
        for session in 1...UInt64(others) {
            queue.append(session, byteCount: .random(in: 1...100, using: &random), of: SessionID(session))
        }
        queue.append(0, byteCount: largeByteCount, of: SessionID(0))
        var bytesBefore = 0
        while let session = queue.removeFirst(), session != 0 {
            let byteCount = Int.random(in: 1...100, using: &random)
            bytesBefore += byteCount
            queue.append(session, byteCount: byteCount, of: SessionID(session))
        }
        #expect(bytesBefore <= (largeByteCount / 100 + 1) * others * 200)
    }

    /// Nothing is lost, and a session's own bodies keep their order.
    @Test(arguments: 0..<8 as Range<UInt64>)
    func everyBodyComesOnceAndInItsSessionsOrder(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var queue = BodyQueue<(session: UInt64, number: Int)>(quantum: 50)
        var (added, removed) = ([UInt64: Int](), [UInt64: Int]())
        for _ in 0..<500 {
            if Bool.random(using: &random) {
                let session = UInt64.random(in: 0..<5, using: &random)
                let number = added[session, default: 0]
                queue.append(
                    (session, number), byteCount: .random(in: 0...300, using: &random), of: SessionID(session)
                )
                added[session] = number + 1
            } else if let (session, number) = queue.removeFirst() {
                #expect(number == removed[session, default: 0])
                removed[session] = number + 1
            }
        }
        while let (session, number) = queue.removeFirst() {
            #expect(number == removed[session, default: 0])
            removed[session] = number + 1
        }
        #expect(added == removed)
    }
}
