import PandoReactor
import Testing

@Suite struct MemoryAheadTests {
    /// Whatever the other thread touches meanwhile: what was written stays, and the thread ends when it is told.
    @Test func changesNothing() throws {
        guard var memory = MemoryAhead() else { throw SocketError(code: 11, attempt: "start a thread") }
        var pieces: [[UInt64]] = []
        for index in 0..<4000 {
            pieces.append([UInt64](repeating: UInt64(index), count: 1500))
            memory.advance()
        }
        memory.stop()
        let changed = pieces.indices.filter { index in !pieces[index].allSatisfy { $0 == UInt64(index) } }
        #expect(changed.isEmpty)
    }
}
