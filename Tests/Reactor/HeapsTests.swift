import Testing

@testable import PandoReactor

@Suite("heaps") struct HeapsTests {
    @Test("blocks of other threads are merged while these allocate")
    func mergeFromAnotherThread() throws {
        let worker = try WorkerThread<Int>("test-heap")
        let results = Mailbox<Int>(signalling: try WakeupEvent())
        try worker.start { queue in
            var sum = 0
            while let count = queue.next() {
                let texts = (0..<count).map { String(repeating: "x", count: 40 + $0 % 60) }
                sum += texts.reduce(0) { $0 + $1.utf8.count }
            }
            results.post(sum)
        }
        for _ in 0..<20 {
            worker.post(2000)
            Heaps.merge()
        }
        worker.stop()
        var sums: [Int] = []
        results.drain(into: &sums)
        #expect(sums == [20 * (0..<2000).reduce(0) { $0 + 40 + $1 % 60 }])
        Heaps.merge()
    }
}
