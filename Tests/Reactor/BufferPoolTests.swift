import PandoReactor
import Testing

@Suite struct SparesTests {
    @Test func keepsAFew() {
        let spares = BufferPool<Int>(atMost: 2)
        #expect(spares.acquire() == nil)
        for number in 1...3 { spares.release(number) }
        #expect([spares.acquire(), spares.acquire(), spares.acquire()] == [2, 1, nil])
    }

    /// Whoever takes a buffer, or drains it from a mailbox, is alone with it: else to empty it would mean to
    /// allocate it anew.
    @Test func whatIsHandedOnIsHeldByNobodyElse() throws {
        let spares = BufferPool<[UInt8]>(atMost: 1)
        let mailbox = Mailbox<[UInt8]>(signalling: try WakeupEvent())
        var buffer: [UInt8] = []
        buffer.reserveCapacity(10_000)
        let place = Self.place(of: buffer)
        for round in 0..<3 {
            buffer.append(UInt8(round))
            mailbox.post(consume buffer)
            var drained: [[UInt8]] = []
            mailbox.drain(into: &drained)
            var taken: [UInt8] = []
            swap(&taken, &drained[0])
            taken.removeAll(keepingCapacity: true)
            spares.release(consume taken)
            buffer = try #require(spares.acquire())
            #expect(Self.place(of: buffer) == place, "round \(round)")
        }
    }

    private static func place(of buffer: [UInt8]) -> UInt {
        unsafe buffer.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
    }
}
