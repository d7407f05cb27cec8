import PandoTree
import Testing

@testable import PandoDatabase

@Suite struct SeenLocationsTests {
    @Test func aLocationIsNewOnce() {
        var seen = SeenLocations()
        #expect(seen.byteCount == 0, "none is needed before the first")
        #expect(seen.insert("a/b") && !seen.insert("a/b"))
        #expect(seen.byteCount == SeenLocations.leastByteCount)
    }

    /// Of thousands nearly all are told apart, and of repeated ones nearly none counts again; the memory is
    /// bounded.
    @Test(arguments: [1000, 10_000, 50_000]) func many(count: Int) {
        var seen = SeenLocations()
        let paths = (0..<count).map { Path(["a", Key(index: $0)]) }
        let new = paths.count { seen.insert($0) }
        #expect(new > count * 3 / 4 && new <= count)
        let again = paths.count { seen.insert($0) }
        // What came before it grew is forgotten: about 23 000 have half of its bits.
        #expect(again <= 24_000)
        #expect(paths.count { seen.insert($0) } == 0 && seen.byteCount <= 32 << 10)
    }
}
