import PandoBytes
import PandoEngine
import PandoRandom
import Testing

@testable import PandoDatabase
@testable import PandoLoops

@Suite struct OutputBacklogTests {
    /// A loop that delivers outputs, and notes what each session got: the numbers of the outputs.
    private struct LoopModel {
        var backlog = OutputBacklog(ofLoop: 0)
        var position = OutputPosition()
        /// Slots of sessions that have kept up; of those, which have sent something.
        var listening: Set<UInt32> = []
        var asking: Set<UInt32> = []
        var received: [UInt32: [Int]] = [:]

        private mutating func deliver(_ batch: OutputBatch, _ item: Int, _ range: Range<Int>? = nil) {
            switch batch.items[item] {
            case .held(let session, let number): received[session.slot, default: []].append(number)
            case .shared(let bytes, let recipients):
                let number = Int(bytes.array[0]) << 8 | Int(bytes.array[1])
                for session in recipients[range ?? 0..<recipients.count] where session.loop == 0 {
                    received[session.slot, default: []].append(number)
                }
            default: break
            }
        }

        /// As `IOLoop` does: a piece of what is there, and then what may be delivered early.
        /// - Parameters:
        ///   - itemCount: Items of the piece.
        ///   - earlyCount: Items after which there is no more time.
        mutating func turn(_ arrived: [OutputBatch], itemCount: Int, earlyCount: Int = .max) {
            var batches = backlog.take() + arrived
            position.beginPiece()
            var left = itemCount
            for index in batches.indices {
                while left > 0, !position.isPieceOver, !position.isBehind(batches[index]) {
                    left -= 1
                    let item = position.item
                    if case .shared(_, let recipients) = batches[index].items[item] {
                        deliver(batches[index], item, position.nextRecipients(of: recipients.count))
                    } else {
                        deliver(batches[index], item)
                        position.nextItem()
                    }
                }
                guard position.isBehind(batches[index]) else {
                    backlog.put(back: Array(batches[index...]), deliveredCount: index)
                    var taken: [(OutputBatch, Int)] = []
                    backlog.deliverEarly(
                        behind: position, isOver: { taken.count >= earlyCount },
                        urgency: { [asking, listening] session in
                            precondition(session.loop == 0, "another loop's session")
                            return asking.contains(session.slot)
                                ? .asking : listening.contains(session.slot) ? .listening : .none
                        },
                        deliver: {
                            taken.append(($0, $1))
                            return 1
                        })
                    for (batch, item) in taken { deliver(batch, item) }
                    return
                }
                position.beginBatch()
            }
            backlog.put(back: [], deliveredCount: batches.count)
            batches = []
        }
    }

    private static func session(_ slot: Int, loop: UInt8 = 0) -> SessionID {
        SessionID(loop: loop, slot: UInt32(slot), generation: 1)
    }

    private static func shared(_ number: Int, _ sessions: some Sequence<SessionID>) -> OutputBatch.Item {
        .shared(SharedBytes([UInt8(number >> 8), UInt8(number & 255)]), ContiguousArray(sessions))
    }

    private static func flood(_ count: Int) -> OutputBatch {
        OutputBatch(items: (0..<count).map { .held(session(0), byteCount: $0) })
    }

    /// Random outputs for one session and for several, of this loop and of another, in batches that come
    /// while others wait; sessions become urgent and cease to be: each session gets each of its outputs once,
    /// in their order.
    @Test(arguments: 0..<200 as Range<UInt64>) func everySessionGetsItsOutputsOnceAndInOrder(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var model = LoopModel()
        var expected: [UInt32: [Int]] = [:]
        var number = 0
        let sessionCount = Int.random(in: 1...12, using: &random)
        for _ in 0..<60 {
            model.asking = Set((0..<UInt32(sessionCount)).filter { _ in Bool.random(using: &random) })
            model.listening = Set((0..<UInt32(sessionCount)).filter { _ in Bool.random(using: &random) })
            let arrived = (0..<Int.random(in: 0...3, using: &random)).map { _ in
                OutputBatch(
                    items: (0..<Int.random(in: 0...12, using: &random)).map { _ in
                        number += 1
                        var slots = Array(0..<sessionCount).shuffled(using: &random)
                        if Bool.random(using: &random) {
                            expected[UInt32(slots[0]), default: []].append(number)
                            return .held(Self.session(slots[0]), byteCount: number)
                        }
                        slots.removeLast(Int.random(in: 0...slots.count, using: &random))
                        let sessions = slots.map { slot in
                            let isOwn = Int.random(in: 0..<3, using: &random) > 0
                            if isOwn { expected[UInt32(slot), default: []].append(number) }
                            return Self.session(slot, loop: isOwn ? 0 : 1)
                        }
                        return Self.shared(number, sessions)
                    })
            }
            model.turn(
                arrived, itemCount: Int.random(in: 0...14, using: &random),
                earlyCount: Int.random(in: 0...9, using: &random))
        }
        while !model.backlog.isEmpty { model.turn([], itemCount: 50) }
        #expect(model.received == expected, "seed \(seed)")
    }

    /// Thousands of outputs of others wait: a session that has kept up does not wait for them.
    @Test func outputOfASessionThatHasKeptUpIsDeliveredEarly() {
        var model = LoopModel()
        model.turn([Self.flood(5000)], itemCount: 10)
        model.listening = [2]
        let items = [.held(Self.session(2), byteCount: 7), Self.shared(8, [2, 3].map { Self.session($0) })]
        model.turn([OutputBatch(items: items)], itemCount: 10)
        #expect(model.received[2] == [7, 8] && model.received[3] == [8])
    }

    @Test func laterOutputWaitsBehindAnEarlierOne() {
        var model = LoopModel()
        model.turn([Self.flood(5000)], itemCount: 10)
        model.turn([OutputBatch(items: [.held(Self.session(2), byteCount: 9)])], itemCount: 10)
        model.asking = [2]
        model.turn([OutputBatch(items: [.held(Self.session(2), byteCount: 10)])], itemCount: 10)
        #expect(model.received[2] == nil, "it had not kept up when the first one came")
        while !model.backlog.isEmpty { model.turn([], itemCount: 1000) }
        #expect(model.received[2] == [9, 10])
    }

    /// A batch names the recipients of all loops. Those of another loop in the same slots are not this
    /// loop's.
    @Test func recipientsOfOtherLoopsKeepNothingBack() {
        var model = LoopModel()
        model.turn([Self.flood(5000)], itemCount: 10)
        let others = (0..<1000).map { Self.session($0, loop: 1) }
        model.turn([OutputBatch(items: [Self.shared(1, others)])], itemCount: 10)
        model.asking = [2]
        model.turn([OutputBatch(items: [.held(Self.session(2), byteCount: 7)])], itemCount: 10)
        #expect(model.received[2] == [7])
    }

    /// At most so many in one turn, and fewer for sessions that only listen; none for more recipients than so
    /// many.
    @Test func earlyDeliveryIsBounded() {
        var model = LoopModel()
        model.turn([Self.flood(2000)], itemCount: 1)
        model.listening = Set(1..<500)
        model.asking = Set(500..<1000)
        let recipients = (1..<20).map { Self.session($0) }
        model.turn([OutputBatch(items: [Self.shared(1, recipients)])], itemCount: 1)
        #expect(model.received.count == 1)
        let items = (20..<1000).map { OutputBatch.Item.held(Self.session($0), byteCount: 1) }
        model.turn([OutputBatch(items: items)], itemCount: 1)
        let listeners = model.received.keys.filter { $0 > 0 && $0 < 500 }
        #expect(listeners.count == OutputBacklog.earlyListeningLimit)
        #expect(model.received.count == 1 + OutputBacklog.earlyItemLimit)
    }

    /// When the time is over, the search goes on in the next turn where it has stopped.
    @Test func searchGoesOnWhereItHasStopped() {
        var model = LoopModel()
        model.turn([Self.flood(2000)], itemCount: 1)
        model.asking = Set(1..<10)
        let items = (1..<10).map { OutputBatch.Item.held(Self.session($0), byteCount: 1) }
        model.turn([OutputBatch(items: items)], itemCount: 1, earlyCount: 4)
        #expect(model.received.count == 1 + 4)
        model.turn([], itemCount: 1, earlyCount: 4)
        #expect(model.received.count == 1 + 8)
    }
}
