import Testing

@testable import PandoConnections

@Suite struct RequestWindowTests {
    @Test(
        arguments: [
            // bytes of each request   requests until full   because
            (100, 2 * RequestWindow.requestLimit, "many small ones"),
            (RequestWindow.firstByteLimit, 5, "the first mark comes early, the second behind a whole window"),
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

    /// However much it asks for in all, and whichever of its requests sets a mark.
    @Test(arguments: [20, 1000, 60 << 10, 1 << 20])
    func clientThatWaitsForItsAnswersHasNoLargeShare(byteCount: Int) {
        var window = RequestWindow()
        var marks = 0
        for _ in 0..<1000 {
            let isMarked = window.add(byteCount: byteCount)
            #expect(!window.isLarge && window.awaitsMark == isMarked)
            if isMarked {
                marks += 1
                window.returnMark()
            }
        }
        #expect(marks >= 1000 / RequestWindow.requestLimit)
    }

    @Test func clientThatGoesOnBeforeItsAnswersHasALargeShare() {
        var window = RequestWindow()
        while !window.add(byteCount: 1000) { #expect(!window.isLarge) }
        #expect(!window.isLarge)
        _ = window.add(byteCount: 1000)
        #expect(window.isLarge)
        window.returnMark()
        #expect(!window.isLarge && !window.awaitsMark)
    }
}
