import PandoBytes
import Testing

@testable import PandoTree

/// Keys of every kind are written with a capacity that is just enough, or too small.
@Suite struct KeyBytesTests {
    static let texts = [
        "a", "room", "123456789012345é", "abcdefghijklmno", "abcdefghijklmnop", "-OEGF2sXk0aZ_19-Qqzz", "0",
        "-1", "2147483647",
        "-2147483648", "007", String(repeating: "0", count: 31) + "7", String(repeating: "0", count: 40),
        "n\u{0}", "ключ",
        String(repeating: "x", count: 127), String(repeating: "x", count: 128),
        String(repeating: "y", count: 768),
    ]

    @Test(arguments: texts) func keyIsWrittenCompletelyOrOverrunIsSet(_ text: String) {
        let key = Key(unchecked: Text(text))
        var whole: [UInt8] = []
        whole.append(varint: UInt64(text.utf8.count))
        whole += Array(text.utf8)
        for before in [0, 1, 5] {
            for capacity in Array(0...70) + [
                whole.count + before - 1, whole.count + before, whole.count + before + 1, 900,
            ] {
                var bytes: [UInt8] = [9]
                var isOverrun = false
                bytes.append(atMost: capacity) { writer in
                    for _ in 0..<min(before, capacity) { writer.append(UInt8(7)) }
                    writer.append(counted: key)
                    isOverrun = writer.isOverrun
                }
                let front = [9] + [UInt8](repeating: 7, count: min(before, capacity))
                #expect(
                    isOverrun == (capacity < before + whole.count),
                    "\(text), \(before) before it, capacity \(capacity)")
                if !isOverrun {
                    #expect(bytes == front + whole, "\(text), \(before) before it, capacity \(capacity)")
                }
                #expect(bytes.count <= 1 + capacity && bytes.starts(with: front))
            }
        }
    }
}
