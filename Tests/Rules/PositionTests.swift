import Testing

@testable import PandoRules

/// Lines and columns from 1, columns in UTF-16 units.
@Test(arguments: [
    // before the place     position   because
    ("", "1:1", "the beginning"),
    ("ab", "1:3", "a byte a column"),
    ("\tb", "1:3", "a tab is one"),
    ("a\n", "2:1", "LF"),
    ("a\r\nb", "2:2", "CR LF is one line end"),
    ("a\r", "1:3", "between CR and LF the line has not ended"),
    ("a\r\rb\n\n", "5:1", "CR alone is a line end"),
    ("é", "1:2", "two bytes, one unit"),
    ("\u{20AC}", "1:2", "three bytes, one unit"),
    ("🐵", "1:3", "four bytes, two units"),
    ("\n🐵é\u{20AC}x", "2:6", "all of them"),
])
func positions(prefix: String, position: String, reason: String) throws {
    let source = try RulesSource(Array((prefix + (prefix == "a\r" ? "\n" : "x")).utf8))
    #expect(source.position(at: prefix.utf8.count).description == position, "\(reason)")
}

@Test func offsetBeyondEndIsTheEnd() throws {
    #expect(try RulesSource(Array("a\nb".utf8)).position(at: 1000) == SourcePosition(line: 2, column: 2))
}

/// The place in the source of each marked character of a rule's text, through line ends and escapes.
@Test func positionsOfExpressionsAreExact() throws {
    let rules = try load(
        #"""
        { // é
          "rules": {
            ".read": "/*ab\n\"c\u00e9d\ud83d\udc35e 🐵f
          g*/ true",
            ".write": true,
            "$x": { ".validate": "true" }
          }
        }
        """#)
    let read = try #require(rules.root.read)
    #expect(read.text == "/*ab\n\"céd🐵e 🐵f\n  g*/ true")
    func place(of character: Character) throws -> String {
        let index = try #require(read.text.string.firstIndex(of: character))
        let offset = read.text.string.utf8.distance(from: read.text.string.startIndex, to: index)
        return rules.position(ofText: offset, in: read).description
    }
    #expect(try place(of: "a") == "3:17")
    #expect(try place(of: "b") == "3:18")
    #expect(try place(of: "\"") == "3:21")
    #expect(try place(of: "c") == "3:23")
    #expect(try place(of: "é") == "3:24")
    #expect(try place(of: "d") == "3:30")
    #expect(try place(of: "e") == "3:43")
    #expect(try place(of: "f") == "3:47")
    #expect(try place(of: "g") == "4:3")
    #expect(rules.position(ofText: read.text.utf8Count, in: read).description == "4:11", "the closing quote")
    let write = try #require(rules.root.write)
    #expect(rules.position(ofText: 0, in: write).description == "5:15")
    let validate = try #require(rules.root.wildcard?.node.validate)
    #expect(rules.position(ofText: 0, in: validate).description == "6:27")
    #expect(rules.position(ofText: 99, in: validate).description == "6:31")
}
