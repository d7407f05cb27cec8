import PandoTree
import Testing

@Suite struct TreeSizeTests {
    @Test(
        arguments: [
            // JSON   nodes   bytes, about
            ("null", 0, 0), ("true", 1, 8), (#""four""#, 1, 6),
            (#"{"a":1,"bc":{"d":"x"}}"#, 4, 5 + 8 + 6 + 5 + 3),
            (#"{".value":1,".priority":2}"#, 1, 8 + 24),
            (#"{".value":1,".priority":"long"}"#, 1, 8 + 16 + 4),
            (#"{"a":true,".priority":"long"}"#, 2, 5 + 8 + 16 + 4),
        ] as [(String, Int, Int)])
    func countsLocationsAndBytes(json: String, nodeCount: Int, byteCount: Int) throws {
        var size = TreeSize()
        try Node(json: Array(json.utf8).rawSpan).count(into: &size)
        #expect(size.nodeCount == nodeCount)
        #expect(size.byteCount == byteCount)
        let node = try Node(json: Array(json.utf8).rawSpan)
        if nodeCount > 0 { #expect(node.weight(upTo: .max) == byteCount) }
    }

    /// A client may send as much text in a priority as in a value.
    @Test(arguments: [
        (#"{".value":1,".priority":""#, #""}"#), (#"{"k":{"a":1,".priority":""#, #""}}"#),
    ])
    func longPrioritiesAreHeavy(start: String, end: String) throws {
        let json = start + String(repeating: "x", count: 100_000) + end
        let node = try Node(json: Array(json.utf8).rawSpan)
        #expect(node.isHeavier(than: 99_999) && !node.isHeavier(than: 101_000))
    }
}
