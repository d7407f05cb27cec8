import PandoBytes
import PandoEngine
import Testing

import PandoStorage

@testable import PandoDatabase

/// Answers that lie one behind the other become one item for each session, up to a size.
@Suite struct OutputBatchTests {
    private let one = SessionID(1)
    private let two = SessionID(2)

    private func batch(_ answers: [(SessionID, Int)]) -> OutputBatch {
        var batch = OutputBatch()
        for (session, byteCount) in answers {
            let start = batch.arena.count
            batch.arena += [UInt8](repeating: 0, count: byteCount)
            batch.appendFrames(from: start, to: session)
        }
        batch.finish()
        return batch
    }

    private func ranges(_ batch: OutputBatch) -> [String] {
        batch.items.map { item in
            switch item {
            case .frames(let session, let range):
                "\(session.rawValue):\(range.lowerBound)..<\(range.upperBound)"
            case .windowMark: "mark"
            case .held: "held"
            case .resumeReading: "resume"
            case .delivered: "delivered"
            default: "other"
            }
        }
    }

    @Test func responsesToOneSessionAreOneItem() {
        #expect(ranges(batch([(one, 10), (one, 20), (one, 5)])) == ["1:0..<35"])
        #expect(ranges(batch([(one, 10), (two, 20), (one, 5)])) == ["1:0..<10", "2:10..<30", "1:30..<35"])
        #expect(ranges(batch([])) == [])
    }

    /// An emptied batch equals a new one except for its capacity; a large capacity is not kept.
    @Test func emptiedBatchHasNothingOfItsOldContent() {
        var used = batch([(one, 10), (two, 20)])
        used.append(.resumeReading)
        used.sharedByteCount = 7
        let start = used.arena.count
        used.arena += [1, 2, 3]
        used.appendFrames(from: start, to: two)
        used.removeAll()
        #expect(used.isEmpty && used.byteCount == 0)
        used.finish()
        #expect(used.isEmpty, "an answer that was open is forgotten too")
        used.arena += [4]
        used.appendFrames(from: 0, to: one)
        used.finish()
        #expect(ranges(used) == ["1:0..<1"])

        for (byteCount, isKept) in [(100 << 10, true), (1 << 20, false)] {
            let large = batch([(one, byteCount)])
            let spares = OutputBatch.pool(loopCount: 1)
            OutputBatch.recycle(consume large, into: spares)
            #expect((spares.acquire()?.arena.capacity ?? 0 >= byteCount) == isKept)
        }
    }

    /// What a delivery takes counts by items and recipients, and not by bytes alone.
    @Test func deliveriesHaveWeight() {
        #expect(OutputBatch().deliveryWeight == 0)
        #expect(OutputBatch(items: [.resumeReading]).deliveryWeight == 0, "loops post these, too")
        #expect(batch([(one, 10), (one, 20), (one, 5)]).deliveryWeight == 512, "one item")
        var used = batch([(one, 10), (two, 20), (one, 5)])
        used.append(.windowMark(one))
        used.append(.shared(SharedBytes([1, 2, 3]), [one, two]))
        used.append(.compressible(CompressibleFrames(SharedBytes([1, 2, 3])), [one]))
        used.recipientCount += 3
        #expect(used.deliveryWeight == 6 * 512 + 3 * 64)
        used.removeAll()
        #expect(used.deliveryWeight == 0)
    }

    @Test func noItemOfSeveralRepliesIsLongerThanTheLimit() {
        let limit = 64 << 10
        #expect(ranges(batch([(one, limit - 1), (one, 1)])) == ["1:0..<\(limit)"])
        #expect(
            ranges(batch([(one, limit - 1), (one, 2)])) == [
                "1:0..<\(limit - 1)", "1:\(limit - 1)..<\(limit + 1)",
            ])
        // One alone is what it is.
        #expect(
            ranges(batch([(one, limit + 9), (one, 1)])) == [
                "1:0..<\(limit + 9)", "1:\(limit + 9)..<\(limit + 10)",
            ])
    }

    @Test func itemsKeepTheirOrder() {
        var batch = OutputBatch()
        #expect(batch.isEmpty)
        batch.arena += [1, 2, 3]
        batch.appendFrames(from: 0, to: one)
        #expect(!batch.isEmpty, "an answer that is no item yet")
        batch.append(.resumeReading)
        batch.arena += [4]
        batch.appendFrames(from: 3, to: one)
        batch.finish()
        batch.finish()
        #expect(ranges(batch) == ["1:0..<3", "resume", "1:3..<4"])
    }
}

@Suite struct SessionRegistryTests {
    @Test func removedSessionsAreNotFound() {
        let database = StoredDatabase(id: 1, name: "a", access: .open)
        var table = SessionRegistry()
        let (one, two) = (SessionID(1), SessionID(2))
        let first = HostedSession(database: database, publicID: nil)
        #expect(table[one] == nil)
        table.add(first, as: one)
        table.add(HostedSession(database: database, publicID: nil), as: two)
        #expect(table[one] === first)
        #expect(table[one] === first)
        #expect(table.remove(one) === first)
        #expect(table[one] == nil)
        #expect(table.remove(one) == nil)
        // The session that was found last is not the removed one.
        #expect(table[two] != nil)
        let again = HostedSession(database: database, publicID: nil)
        table.add(again, as: two)
        #expect(table[two] === again)
        #expect(table.ids.map(\.rawValue) == [2])
    }
}
