import PandoTree
import Testing

@testable import PandoEngine

@Suite struct HashCacheTests {
    @Test(
        arguments: [
            // noted       changed           kept   because
            ("a/b", "a/b", false, "the location itself"),
            ("a/b", "a/b/c/d", false, "something below it"),
            ("a/b", "a", false, "something above it"),
            ("a/b", "", false, "the root"),
            ("", "x/y", false, "the root's hash covers everything"),
            ("a/b", "a/c", true, "a location beside it"),
            ("a/b", "a/bc", true, "a longer name is another"),
            ("a/b", "a/b/.priority", false, "its own priority"),
            ("a/b", "a/b/c/.priority", false, "a priority below it"),
            ("a/b", "a/.priority", false, "what is above may be set with it"),
            ("a/.priority", "a", false, "the location of a noted priority"),
        ] as [(String, String, Bool, String)])
    func hashIsRemovedWhenItsValueMayHaveChanged(
        noted: String, changed: String, isKept: Bool, because: String
    ) {
        var cache = HashCache()
        cache.note("h", of: Path(text: noted))
        cache.invalidate(Path(text: changed))
        #expect((cache[Path(text: noted)] == "h") == isKept, "\(because)")
    }

    @Test func fullCacheReplacesOldestHash() {
        var cache = HashCache()
        for number in 0...HashCache.capacity { cache.note("\(number)", of: Path(text: "p\(number)")) }
        #expect(cache[Path(text: "p0")] == nil)
        #expect(
            cache[Path(text: "p1")] == "1"
                && cache[Path(text: "p\(HashCache.capacity)")] == "\(HashCache.capacity)")
        cache.note("new", of: Path(text: "p1"))
        #expect(cache[Path(text: "p1")] == "new")
    }
}
