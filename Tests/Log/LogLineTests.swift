import Testing

@testable import PandoLog

@Suite struct LogLineTests {
    @Test(arguments: [
        ("", ""),
        ("\n", "\n"),
        ("denied: read of /a/b\n", "denied: read of /a/b\n"),
        ("no line feed", "no line feed"),
        // A line of its own.
        ("/a\n2026-01-01 info forged\n", #"/a\u{A}2026-01-01 info forged"# + "\n"),
        ("/a\r\nb\n", #"/a\u{D}\u{A}b"# + "\n"),
        ("two\n\n", #"two\u{A}"# + "\n"),
        // Commands of a terminal, also those of one character (C1).
        ("\u{1B}[2J\u{7}\u{7F}\u{9B}31m\n", #"\u{1B}[2J\u{7}\u{7F}\u{9B}31m"# + "\n"),
        // Another order, and characters that are not seen.
        ("/\u{202E}abc\u{2066}\u{200B}\u{FEFF}\n", #"/\u{202E}abc\u{2066}\u{200B}\u{FEFF}"# + "\n"),
        ("a\u{2028}b\u{2029}\n", #"a\u{2028}b\u{2029}"# + "\n"),
        ("tab\there\n", #"tab\u{9}here"# + "\n"),
        // Characters that are not shown: a variation selector, a filler, one that joins others.
        ("a\u{FE01}b\u{3164}c\u{34F}d\u{E0100}\n", #"a\u{FE01}b\u{3164}c\u{34F}d\u{E0100}"# + "\n"),
        // Spaces that are none: what is behind them would look like a part of the line of its own.
        ("/a\u{2003}status=200\n", #"/a\u{2003}status=200"# + "\n"),
        ("a\u{A0}b\u{1680}c\u{2000}d\u{200A}e\n", #"a\u{A0}b\u{1680}c\u{2000}d\u{200A}e"# + "\n"),
        ("a\u{202F}b\u{205F}c\u{3000}d\u{2800}e\n", #"a\u{202F}b\u{205F}c\u{3000}d\u{2800}e"# + "\n"),
        // What people write stays, also U+0020.
        ("info pando: a b [PandoServer] c\n", "info pando: a b [PandoServer] c\n"),
        ("/räume/部屋/🎉/❤️\n", "/räume/部屋/🎉/❤️\n"),
        (#"\n \u{41}"# + "\n", #"\n \u{41}"# + "\n"),
    ])
    func lineStaysOneLine(line: String, written: String) {
        #expect(String(decoding: LogLine.bytes(line), as: UTF8.self) == written)
    }

    /// Of all characters that Unicode calls spaces, only U+0020 is written as it is.
    @Test func onlyOneSpaceIsWritten() {
        let spaces = (0...0xFFFF as ClosedRange<UInt32>).compactMap { Unicode.Scalar($0) }.filter {
            $0.properties.generalCategory == .spaceSeparator || $0.properties.isWhitespace
        }
        #expect(spaces.contains(" ") && spaces.count > 20)
        for space in spaces where space != " " {
            let code = String(space.value, radix: 16, uppercase: true)
            #expect(LogLine.bytes("a\(space)b") == Array("a\\u{\(code)}b".utf8), "U+\(code)")
        }
    }

    @Test func inJSONSpacesAreEscapedAsJSON() {
        let line = String(decoding: LogLine.bytes("\"/a\u{A0}b \u{1D159}\"\n", isJSON: true), as: UTF8.self)
        #expect(line == #""/a\u00a0b \ud834\udd59""# + "\n")
    }
}
