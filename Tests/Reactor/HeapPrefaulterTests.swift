import COperatingSystem
import PandoReactor
import Testing

@Suite struct HeapPrefaulterTests {
    /// What the worker does, on memory that was never accessed: its pages are present afterwards, and what
    /// was written before is unchanged.
    @Test func populatingMakesPagesPresentAndChangesNoByte() {
        let byteCount = 64 << 20  // mapped by itself: larger than any threshold of malloc
        let memory = UnsafeMutableRawPointer.allocate(byteCount: byteCount, alignment: 4096)
        defer { unsafe memory.deallocate() }
        unsafe memory.storeBytes(of: 7, toByteOffset: byteCount / 2, as: UInt64.self)
        let start = UInt64(UInt(bitPattern: memory))
        #expect(pando_resident_page_count(start, byteCount) < 100)
        guard pando_heap_can_populate() == 0 else { return }
        #expect(pando_heap_populate(start, byteCount) == 0)
        #expect(pando_resident_page_count(start, byteCount) == byteCount / 4096)
        #expect(unsafe memory.load(fromByteOffset: byteCount / 2, as: UInt64.self) == 7)
        #expect(unsafe memory.load(fromByteOffset: 4096, as: UInt64.self) == 0)
    }

    @Test func unmappedMemoryIsRefused() {
        #expect(pando_heap_populate(UInt64(1) << 46, 1 << 20) < 0)
    }

    /// stop() ends the thread, and what was written while it worked is unchanged.
    @Test func stopEndsTheThread() {
        guard var memory = HeapPrefaulter() else { return }
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
