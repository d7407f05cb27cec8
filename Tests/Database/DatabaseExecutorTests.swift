import Logging
import PandoBytes
import PandoEngine
import PandoRandom
import PandoReactor
import PandoTime
import Synchronization
import Testing

@testable import PandoDatabase
@testable import PandoStorage

@Suite struct DatabaseExecutorTests {
    /// Loops that do their own work, loops that hand it over, and a database thread, all at once: each
    /// message is processed once, those of one loop in their order, and none is forgotten.
    @Test(arguments: [1, 2, 4]) func everyMessageIsProcessedOnceAndInOrder(loopCount: Int) throws {
        let wakeups = try (0..<loopCount).map { _ in try WakeupEvent() }
        let outputs = wakeups.map { Mailbox<OutputBatch>(signalling: $0) }
        let executor = try Self.open(outputs)
        let database = try NamedThread.start("database") { executor.serve() }
        let logs = (0..<loopCount).map { _ in Log() }
        // Many rounds: after each one nothing more comes that could wake a thread that was forgotten.
        for round in 0..<Self.roundCount {
            let numbers = round * Self.countInRound..<(round + 1) * Self.countInRound
            var threads = try (0..<loopCount).map { loop in
                try NamedThread.start("loop") { [outputs, logs] in
                    Self.send(numbers, onLoop: loop, through: executor) { logs[loop].drain(outputs[loop]) }
                }
            }
            if round.isMultiple(of: 2) {
                threads.append(
                    try NamedThread.start("journal") {
                        for ticket in 0..<20 { executor.release(upTo: UInt64(ticket)) }
                    })
            }
            for thread in threads { thread.join() }
            for loop in 0..<loopCount {
                logs[loop].drain(outputs[loop])
                while logs[loop].numbers.count < numbers.upperBound {
                    guard wakeups[loop].wait(timeout: .seconds(20)) else { break }
                    logs[loop].drain(outputs[loop])
                }
                try #require(
                    logs[loop].numbers == Array(0..<Int64(numbers.upperBound)),
                    "loop \(loop), round \(round)")
            }
        }
        executor.stop()
        database.join()
    }

    /// Health checks and the stop ask, from other threads, how long the databases have been held.
    @Test func unfinishedTurnIsSeenWhileItLasts() throws {
        let executor = try Self.open([Mailbox(signalling: try WakeupEvent())])
        #expect(executor.unfinishedTurn() == nil)
        let seen = Mutex<[Duration?]>([])
        executor.post(
            .trees { _ in
                let later = MonotonicTime.now + .seconds(60)
                seen.withLock { $0 = [executor.unfinishedTurn(), executor.unfinishedTurn(at: later)] }
            })
        _ = executor.takeTurn()
        let turns = seen.withLock { $0 }
        #expect(turns.count == 2 && turns.allSatisfy { $0 != nil })
        #expect(turns.last.flatMap { $0 }.map { $0 >= .seconds(60) } == true)
        #expect(executor.unfinishedTurn() == nil)
    }

    private static let roundCount = 200
    private static let countInRound = 40

    /// An executor that holds a host without a journal, for loops with these outputs.
    private static func open(_ outputs: [Mailbox<OutputBatch>]) throws -> DatabaseExecutor {
        let executor = try DatabaseExecutor()
        executor.open(
            DatabaseHost(
                DatabaseOptions(), recovered: RecoveredState(access: .open), journal: nil,
                requestBackpressure: Backpressure(byteLimit: 1 << 30),
                outputs: OutputQueues(
                    outputs, pool: BufferPool(atMost: 1), backpressure: Backpressure(byteLimit: 1 << 30)),
                services: DatabaseServices(
                    logger: Logger(label: "test"), preparation: PreparationWorkers(start: { _ in }),
                    post: { [executor] in executor.post($0) })))
        return executor
    }

    /// What a loop does: a few messages a tick.
    private static func send(
        _ numbers: Range<Int>, onLoop loop: Int, through executor: DatabaseExecutor,
        _ lookAtOutputs: () -> Void
    ) {
        var random = SeededGenerator(seed: numbers.lowerBound &+ loop)
        var number = numbers.lowerBound
        while number < numbers.upperBound {
            var messages: [DatabaseMessage] = []
            for _ in 0..<Int.random(in: 1...5, using: &random) where number < numbers.upperBound {
                let session = SessionID(loop: UInt8(loop), slot: 0, generation: 1)
                messages.append(.reply(session, .ok(Int64(number)), byteCount: 0))
                number += 1
            }
            // One that no loop does itself, for a session that does not exist.
            if Int.random(in: 0..<7, using: &random) == 0 {
                messages.append(.closed(SessionID(loop: UInt8(loop), slot: 1, generation: 1)))
            }
            if Int.random(in: 0..<5, using: &random) == 0 {
                executor.post(movingFrom: &messages)
            } else {
                executor.process(&messages, onQueue: loop)
                lookAtOutputs()
            }
        }
    }

    /// The numbers of the replies that a loop was given.
    ///
    /// `@unchecked Sendable`: its loop's thread, and the test when that is over.
    private final class Log: @unchecked Sendable {
        private(set) var numbers: [Int64] = []
        private var batches: [OutputBatch] = []

        func drain(_ mailbox: Mailbox<OutputBatch>) {
            mailbox.drain(into: &batches)
            for batch in batches {
                for case .frames(_, let range) in batch.items {
                    numbers += OutputBatch.messages(in: batch.arena[range]).map { Self.number($0[...]) }
                }
            }
            batches.removeAll()
        }

        /// Of `…{"t":"d","d":{"r":17,…`, or -1.
        private static func number(_ message: ArraySlice<UInt8>) -> Int64 {
            let text = String(decoding: message, as: UTF8.self)
            guard let start = text.firstRange(of: "\"r\":")?.upperBound else { return -1 }
            return Int64(text[start...].prefix { $0.isNumber }) ?? -1
        }
    }
}
