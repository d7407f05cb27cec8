import PandoReactor
import Testing

@Suite struct BufferPoolTests {
    @Test func keepsAtMostTheLimit() {
        let pool = BufferPool<Int>(atMost: 2)
        #expect(pool.acquire() == nil)
        for number in 1...3 { pool.release(number) }
        #expect([pool.acquire(), pool.acquire(), pool.acquire()] == [2, 1, nil])
    }

    /// A buffer that was acquired, or drained from a mailbox, has one reference: otherwise emptying it would
    /// allocate a new one.
    @Test func acquiredBufferHasOneReference() throws {
        let pool = BufferPool<[UInt8]>(atMost: 1)
        let mailbox = Mailbox<[UInt8]>(signalling: try WakeupEvent())
        var buffer: [UInt8] = []
        buffer.reserveCapacity(10_000)
        let place = Self.place(of: buffer)
        for round in 0..<3 {
            buffer.append(UInt8(round))
            mailbox.post(consume buffer)
            var drained: [[UInt8]] = []
            mailbox.drain(into: &drained)
            var taken = exchange(&drained[0], with: [])
            taken.removeAll(keepingCapacity: true)
            pool.release(consume taken)
            buffer = try #require(pool.acquire())
            #expect(Self.place(of: buffer) == place, "round \(round)")
        }
    }

    private static func place(of buffer: [UInt8]) -> UInt {
        unsafe buffer.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
    }
}
