import COperatingSystem
import PandoBytes
import PandoRandom
import Testing

@testable import PandoReactor

@Suite struct OutboundQueueTests {
    /// The arena against an array of bytes for each queue.
    @Test(arguments: 0..<12 as Range<UInt64>)
    func queuesHaveTheBytesOfTheModel(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var arena = ChunkArena()
        var queues = [OutboundQueue](repeating: OutboundQueue(), count: 5)
        var model = [[UInt8]](repeating: [], count: 5)
        for step in 0..<600 {
            let index = Int.random(in: 0..<queues.count, using: &random)
            let byteCount = Bool.random(using: &random) ? Int.random(in: 0...40, using: &random) : 3000
            let bytes = pattern(step..<(step + byteCount))
            switch Int.random(in: 0..<7, using: &random) {
            case 0:
                queues[index] = arena.append(SharedBytes(bytes), to: queues[index])
                model[index] += bytes
            case 1, 2:
                queues[index] = unsafe bytes.withUnsafeBytes { unsafe arena.append($0, to: queues[index]) }
                model[index] += bytes
            case 3:
                queues[index] = unsafe bytes.withUnsafeBytes { unsafe arena.prepend($0, to: queues[index]) }
                model[index] = bytes + model[index]
            case 4, 5:
                let count = Int.random(in: 0...model[index].count, using: &random)
                queues[index] = arena.removeFirst(count, from: queues[index])
                model[index].removeFirst(count)
            default:
                queues[index] = arena.removeAll(of: queues[index])
                model[index] = []
            }
            arena.checkInvariants(queues)
            #expect(arena.bytes(of: queues[index]) == model[index])
            #expect(queues[index].isEmpty == model[index].isEmpty)
        }
    }

    @Test func gatherGivesAtMostAsManySlicesAsThereIsSpaceFor() {
        var arena = ChunkArena()
        var queue = OutboundQueue()
        for index in 0..<10 { queue = arena.append(SharedBytes([UInt8(index), 0]), to: queue) }
        queue = arena.removeFirst(1, from: queue)
        let slices = UnsafeMutableBufferPointer<pando_slice>.allocate(capacity: 4)
        defer { unsafe slices.deallocate() }
        unsafe slices.initialize(repeating: unsafe pando_slice())
        let gathered = unsafe arena.gather(queue, into: slices, from: 1)
        #expect(gathered.sliceCount == 3 && gathered.byteCount == 5)
        #expect(unsafe slices[1].count == 1 && slices[2].count == 2)
        _ = arena.removeAll(of: queue)
    }
}
