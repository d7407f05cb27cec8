import PandoTree
import Testing

@Suite struct TreeSizeTests {
    @Test(
        arguments: [
            // JSON   nodes   bytes, about
            ("null", 0, 0), ("true", 1, 8), (#""four""#, 1, 6),
            (#"{"a":1,"bc":{"d":"x"}}"#, 4, 5 + 8 + 6 + 5 + 3),
            (#"{".value":1,".priority":2}"#, 1, 8),
        ] as [(String, Int, Int)])
    func countsLocationsAndBytes(json: String, nodeCount: Int, byteCount: Int) throws {
        var size = TreeSize()
        try Node(json: Array(json.utf8).rawSpan).count(into: &size)
        #expect(size.nodeCount == nodeCount)
        #expect(size.byteCount == byteCount)
    }
}
