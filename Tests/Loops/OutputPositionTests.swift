import PandoBytes
import PandoEngine
import Testing

@testable import PandoDatabase
@testable import PandoLoops

@Suite struct OutputPositionTests {
    /// What one piece deals out: item, and which of its recipients.
    private func piece(_ position: inout OutputPosition, of batch: OutputBatch) -> [(Int, Range<Int>)] {
        position.beginPiece()
        var dealt: [(Int, Range<Int>)] = []
        while !position.isPieceOver, !position.isBehind(batch) {
            let item = position.item
            if case .shared(_, let recipients) = batch.items[item] {
                dealt.append((item, position.nextRecipients(of: recipients.count)))
            } else {
                position.nextItem()
                dealt.append((item, 0..<1))
            }
        }
        return dealt
    }

    private func shared(_ count: Int) -> OutputBatch.Item {
        .shared(
            SharedBytes([1]),
            ContiguousArray((0..<count).map { SessionID(loop: 0, slot: UInt32($0), generation: 1) }))
    }

    @Test(arguments: [0, 1, 1023, 1024, 1025, 10_000])
    func everyRecipientIsServedOnceInOrderAndAPieceIsBounded(count: Int) {
        let session = SessionID(loop: 0, slot: 0, generation: 1)
        let batch = OutputBatch(items: [
            .windowMark(session), shared(count), .windowMark(session), shared(count),
        ])
        var position = OutputPosition()
        var all: [(Int, Range<Int>)] = []
        while !position.isBehind(batch) {
            let dealt = piece(&position, of: batch)
            #expect(dealt.reduce(0) { $0 + $1.1.count } <= OutputPosition.pieceCount)
            #expect(!dealt.isEmpty, "each piece deals something out")
            all += dealt
        }
        #expect(all.map(\.0) == all.map(\.0).sorted())
        for item in [1, 3] {
            let ranges = all.filter { $0.0 == item }.map(\.1)
            #expect(ranges.flatMap { Array($0) } == Array(0..<count))
        }
        #expect(all.filter { $0.0 == 0 || $0.0 == 2 }.count == 2)
    }

    @Test func itemsForOneSessionAreBoundedToo() {
        let session = SessionID(loop: 0, slot: 0, generation: 1)
        let batch = OutputBatch(items: Array(repeating: .windowMark(session), count: 3000))
        var position = OutputPosition()
        #expect(piece(&position, of: batch).count == 1024)
        #expect(piece(&position, of: batch).count == 1024)
        #expect(piece(&position, of: batch).count == 952)
        #expect(position.isBehind(batch))
        position.beginBatch()
        #expect(!position.isBehind(batch))
    }

    /// Recipients that take long: the piece ends between two slices of them, and the next goes on there.
    @Test func aPieceEndsWithinAnItem() {
        let batch = OutputBatch(items: [shared(1000)])
        var position = OutputPosition()
        var dealt: [Range<Int>] = []
        var lookCount = 0
        func deal(lookLimit: Int) {
            position.beginPiece()
            lookCount = 0
            while !position.isPieceOver, !position.isBehind(batch) {
                position.endPiece(if: {
                    lookCount += 1
                    return lookCount == lookLimit
                })
                if position.isPieceOver { break }
                dealt.append(position.nextRecipients(of: 1000))
            }
        }
        deal(lookLimit: 2)
        #expect(dealt.map(\.count) == [128, 128])
        #expect(position.hasBegun(0))
        deal(lookLimit: .max)
        #expect(lookCount == 5 && position.isBehind(batch))
        #expect(dealt.flatMap { Array($0) } == Array(0..<1000))
    }

    /// Where each recipient has a message of its own, the clock is looked at as often as for as many items.
    @Test func recipientsWithMessagesOfTheirOwnCountAsItems() {
        let batch = OutputBatch(items: [shared(1000)])
        var position = OutputPosition()
        var dealt: [Range<Int>] = []
        while !position.isBehind(batch) {
            position.beginPiece()
            var lookCount = 0
            var pieceCount = 0
            while !position.isPieceOver, !position.isBehind(batch) {
                position.endPiece(if: {
                    lookCount += 1
                    return lookCount == 3
                })
                if position.isPieceOver { break }
                let range = position.nextRecipients(of: 1000, haveOwn: true)
                pieceCount += range.count
                dealt.append(range)
            }
            #expect(pieceCount <= 4 * OutputPosition.uncheckedLimit && pieceCount > 0)
        }
        #expect(dealt.flatMap { Array($0) } == Array(0..<1000))
        #expect(dealt.allSatisfy { $0.count <= OutputPosition.uncheckedLimit })
    }

    /// Items that take long: the piece ends between two batches of items, wherever a batch of outputs ends.
    @Test func aPieceEndsWhenItsTimeIsOver() {
        let session = SessionID(loop: 0, slot: 0, generation: 1)
        let batch = OutputBatch(items: Array(repeating: .windowMark(session), count: 5))
        var position = OutputPosition()
        var (dealtCount, lookCount) = (0, 0)
        position.beginPiece()
        for _ in 0..<10 where !position.isPieceOver {
            while !position.isBehind(batch) {
                position.endPiece(if: {
                    lookCount += 1
                    return lookCount == 2
                })
                if position.isPieceOver { break }
                position.nextItem()
                dealtCount += 1
            }
            if !position.isPieceOver { position.beginBatch() }
        }
        #expect(lookCount == 2 && dealtCount == 2 * OutputPosition.uncheckedLimit)
        position.beginPiece()
        #expect(!position.isPieceOver, "the next piece goes on")
    }
}
