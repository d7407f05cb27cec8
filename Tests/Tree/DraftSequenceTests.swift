import PandoBytes
import PandoTree
import Testing

/// One parser reads several drafts: it reuses its memory, and nothing of one draft must be in the
/// next.
@Suite struct DraftSequenceTests {
    static let texts = [
        "1", "null", #""text""#, #"{"a":{"b":[1,2]},"c":3}"#, #"{".value":1,"c":2}"#, #"{".sv":"timestamp"}"#,
        "[true,null]", "{}",
        #"{"z":1,"a":{".sv":{"increment":1}},"m":null}"#, #"{".value":7,".priority":2}"#, "-2.5",
        #"{"\u00e9":"\n","b":{"c":"\t\t"}}"#, #""\u20ac\n""#, #"{"a/b":1,"c":{"$":2}}"#,
    ]

    /// All properties of a draft.
    private static func read(_ texts: [String]) -> [String] {
        let bytes = Array(texts.joined(separator: " ").utf8)
        return withCursor(over: bytes.rawSpan) { cursor in
            var parser = DraftParser(JSONReader(cursor), nodeLimit: 1000)
            return texts.map { _ in
                do throws(MalformedJSON) {
                    let draft = try parser.readDraft()
                    defer { parser.reader.invalidData = nil }
                    return """
                        \(draft.node) \(draft.placeholders) \(draft.depth) \(parser.droppedChildren) \
                        \(parser.reader.invalidData.map { "\($0)" } ?? "valid")
                        """
                } catch {
                    return "\(error)"
                }
            }
        }
    }

    @Test func draftsDoNotAffectEachOther() {
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

    /// The error of a malformed draft has its offset, and nothing of that draft is in the next.
    @Test(arguments: ["[1,[2,{\"a\":3,]]", "{\"a\":{\"b\":1", "{\"a\":[tru]}", "{\"a\\x\":1}"])
    func malformedDraftLeavesNoState(_ text: String) {
        let good = #"{"a":{"b":"\n"},"c":[1]}"#
        let bytes = Array("\(good) \(text)".utf8)
        var alone = [UInt8](repeating: UInt8(ascii: " "), count: good.utf8.count + 1)
        alone += Array(text.utf8)
        func fault(_ bytes: [UInt8], behind count: Int) -> (MalformedJSON?, Int) {
            withCursor(over: bytes.rawSpan) { cursor in
                var parser = DraftParser(JSONReader(cursor))
                do throws(MalformedJSON) {
                    for _ in 0..<count { _ = try parser.readDraft() }
                } catch {
                    return (error, -1)
                }
                do throws(MalformedJSON) {
                    _ = try parser.readDraft()
                    return (nil, parser.reader.cursor.offset)
                } catch {
                    return (error, parser.reader.cursor.offset)
                }
            }
        }
        let (behind, first) = (fault(bytes, behind: 1), fault(alone, behind: 0))
        #expect(behind.0 != nil && behind == first)
    }

    /// The limit is for all drafts together, whatever is read between them.
    @Test func nodesAreCountedOverAllDrafts() {
        let bytes = Array("[1,2] 3 [4,5] 6 [7]".utf8)
        withCursor(over: bytes.rawSpan) { cursor in
            var parser = DraftParser(JSONReader(cursor), nodeLimit: 4)
            for _ in 0..<4 { #expect(throws: Never.self) { try parser.readDraft() } }
            #expect(throws: MalformedJSON.self) { try parser.readDraft() }
        }
    }
}
