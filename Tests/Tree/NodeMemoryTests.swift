import PandoTree
import Testing

/// The blocks of a 64-bit system: 16 bytes in front of an object, 32 in front of an array, and the sum with
/// the allocator's word rounded up to 16.
@Suite struct NodeMemoryTests {
    @Test(
        arguments: [
            // JSON   bytes   because
            ("null", 0, "nothing"),
            ("7", 0, "it is in the entry of its parent"),
            (#""fifteen bytes!!""#, 0, "a short text is, too"),
            (#""sixteen bytes!!!""#, 48, "16 + 16, with the word of its block"),
            (#"{"a":1}"#, 80, "a page of one entry: 32 + 32"),
            (#"{"a":1,"b":2}"#, 112, "of two"),
            (#"{"a":{"a":{"a":1}}}"#, 3 * 80, "a page for each object, however small its JSON is"),
            (#"{"a key of more than 15":1}"#, 80 + 48 + 16, "a long key: 16 + 8 + 21"),
        ] as [(String, Int, String)])
    func blocks(json: String, byteCount: Int, because: String) throws {
        #expect(try Node(json: Array(json.utf8).rawSpan).memoryByteCount == byteCount, "\(because)")
    }

    /// 200 000 texts of 40 bytes: 94 bytes each were measured, and 51 are their JSON.
    @Test func manyTexts() throws {
        let count = 200_000
        let text = "\"" + String(repeating: "a", count: 40) + "\""
        let json = "[" + repeatElement(text, count: count).joined(separator: ",") + "]"
        let byteCount = try Node(json: Array(json.utf8).rawSpan).memoryByteCount
        #expect((90 * count..<110 * count).contains(byteCount))
    }

    /// A priority has a block of its own, and its text another one.
    @Test func priorities() throws {
        let leaf = #"{".value":1,".priority":"#
        let number = try Node(json: Array((leaf + "2}").utf8).rawSpan).memoryByteCount
        let text = try Node(json: Array((leaf + "\"sixteen bytes!!!\"}").utf8).rawSpan).memoryByteCount
        #expect(number >= 48 && text == number + 48)
    }
}
