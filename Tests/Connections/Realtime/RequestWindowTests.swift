import Testing

@testable import PandoConnections

@Suite struct RequestWindowTests {
    @Test(
        arguments: [
            // bytes of each request   requests until full   because
            (100, 2 * RequestWindow.requestLimit, "many small ones"),
            (RequestWindow.byteLimit / 4, 8, "few large ones"),
            (16 << 20, 2, "one that is larger than the window is handed on all the same"),
        ] as [(Int, Int, String)])
    func fillsAfterTwoMarks(byteCount: Int, count: Int, because: String) {
        var window = RequestWindow()
        var marks = 0
        for index in 0..<count {
            #expect(!window.isFull, "\(because): full after \(index)")
            if window.add(byteCount: byteCount) { marks += 1 }
        }
        #expect(window.isFull && marks == RequestWindow.markLimit, "\(because)")
        window.returnMark()
        #expect(!window.isFull)
    }

    @Test func fewSmallRequestsAreNoLargeShare() {
        var window = RequestWindow()
        for _ in 0..<50 { _ = window.add(byteCount: 1000) }
        #expect(!window.isLarge)
        for _ in 0..<50 { _ = window.add(byteCount: 1000) }
        #expect(window.isLarge)
    }
}
