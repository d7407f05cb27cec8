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
        // What people write stays.
        ("/räume/部屋/🎉/❤️\n", "/räume/部屋/🎉/❤️\n"),
        (#"\n \u{41}"# + "\n", #"\n \u{41}"# + "\n"),
    ])
    func lineStaysOneLine(line: String, written: String) {
        #expect(String(decoding: LogLine.bytes(line), as: UTF8.self) == written)
    }
}
