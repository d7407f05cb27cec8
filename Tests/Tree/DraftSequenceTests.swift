import PandoBytes
import PandoTree
import Testing

/// One parser reads draft after draft: what it gathers them in is kept, and nothing of one must be found in the next.
@Suite struct DraftSequenceTests {
    static let texts = [
        "1", "null", #""text""#, #"{"a":{"b":[1,2]},"c":3}"#, #"{".value":1,"c":2}"#, #"{".sv":"timestamp"}"#, "[true,null]", "{}",
        #"{"z":1,"a":{".sv":{"increment":1}},"m":null}"#, #"{".value":7,".priority":2}"#, "-2.5",
    ]

    /// Everything a draft says, and how many nodes it has cost.
    private static func read(_ texts: [String]) -> [String] {
        let bytes = Array(texts.joined(separator: " ").utf8)
        return withCursor(over: bytes.rawSpan) { cursor in
            var parser = DraftParser(JSONReader(cursor), nodeLimit: 1000)
            return texts.map { _ in
                do throws(MalformedJSON) {
                    let draft = try parser.readDraft()
                    return "\(draft.node) \(draft.placeholders) \(draft.depth) \(parser.droppedChildren)"
                } catch {
                    return "\(error)"
                }
            }
        }
    }

    @Test func eachIsAsIfItWereAlone() {
        let alone = Dictionary(uniqueKeysWithValues: Self.texts.map { ($0, Self.read([$0])[0]) })
        for first in Self.texts {
            for second in Self.texts {
                for third in Self.texts {
                    let row = [first, second, third]
                    #expect(Self.read(row) == row.compactMap { alone[$0] }, "\(row)")
                }
            }
        }
    }

    /// The limit is for all of them together, whatever is read in between.
    @Test func nodesAreCountedOverAllDrafts() {
        let bytes = Array("[1,2] 3 [4,5] 6 [7]".utf8)
        withCursor(over: bytes.rawSpan) { cursor in
            var parser = DraftParser(JSONReader(cursor), nodeLimit: 4)
            for _ in 0..<4 { #expect(throws: Never.self) { try parser.readDraft() } }
            #expect(throws: MalformedJSON.self) { try parser.readDraft() }
        }
    }
}
