import Logging
import PandoBytes
import PandoEngine
import PandoReactor
import Testing

@testable import PandoServer

@Suite struct DatabaseDoorTests {
    /// Loops that do their own work, loops that hand it over, and a database thread, all at once: each message is taken
    /// once, those of one loop in their order, and none is left behind.
    @Test(arguments: [1, 2, 4]) func everyMessageIsTakenOnceAndInOrder(loopCount: Int) throws {
        let door = try DatabaseDoor()
        let outputs = try (0..<loopCount).map { _ in Mailbox<OutputBatch>(ringing: try Bell()) }
        door.open(
            DatabaseHost(
                Configuration(), recovered: RecoveredState(access: .open), journal: nil,
                congestion: Congestion(byteLimit: 1 << 30), outputCongestion: Congestion(byteLimit: 1 << 30),
                loops: outputs, logger: Logger(label: "test")))
        let database = try NamedThread.start("database") { door.serve() }
        let count: Int64 = 20_000
        let heard = (0..<loopCount).map { _ in Log() }
        let threads = try (0..<loopCount).map { loop in
            try NamedThread.start("loop") { [outputs, heard] in
                var random = SystemRandomNumberGenerator()
                var number: Int64 = 0
                while number < count {
                    var messages: [DatabaseMessage] = []
                    for _ in 0..<Int.random(in: 1...5, using: &random) where number < count {
                        let session = SessionID(loop: UInt8(loop), slot: 0, generation: 1)
                        messages.append(.answer(session, .ok(number), byteCount: 0))
                        number += 1
                    }
                    if Int.random(in: 0..<5, using: &random) == 0 {
                        door.post(movingFrom: &messages)
                    } else {
                        door.take(&messages, onLoop: loop)
                        heard[loop].hear(outputs[loop])
                    }
                    #expect(messages.isEmpty)
                }
            }
        }
        for thread in threads { thread.join() }
        door.stop()
        database.join()
        for loop in 0..<loopCount {
            heard[loop].hear(outputs[loop])
            #expect(heard[loop].numbers == Array(0..<count), "loop \(loop)")
        }
    }

    /// Numbers of the answers that a loop was given.
    ///
    /// `@unchecked Sendable`: its loop's thread, and the test when that is over.
    private final class Log: @unchecked Sendable {
        private(set) var numbers: [Int64] = []
        private var batches: [OutputBatch] = []

        func hear(_ mailbox: Mailbox<OutputBatch>) {
            mailbox.drain(into: &batches)
            for batch in batches {
                for case .frames(_, let range) in batch.items { numbers.append(Self.number(batch.arena[range])) }
            }
            batches.removeAll()
        }

        /// Of `…{"t":"d","d":{"r":17,…`, or -1.
        private static func number(_ frame: ArraySlice<UInt8>) -> Int64 {
            let text = String(decoding: frame, as: UTF8.self)
            guard let start = text.firstRange(of: "\"r\":")?.upperBound else { return -1 }
            return Int64(text[start...].prefix { $0.isNumber }) ?? -1
        }
    }
}
