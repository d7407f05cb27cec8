import PandoBytes

extension Text {
    /// O(bytes).
    var isASCII: Bool {
        withBytes { bytes in
            for index in bytes.indices where bytes[index] >= 0x80 { return false }
            return true
        }
    }

    /// In lower case, independent of a language. O(bytes).
    var lowercased: Text { Text(string.lowercased()) }

    /// In upper case, independent of a language. O(bytes).
    var uppercased: Text { Text(string.uppercased()) }

    /// ASCII with the letters of one case in the other case. O(bytes).
    func withASCIICase(of letters: ClosedRange<UInt8>) -> Text {
        withBytes { bytes in
            var output: [UInt8] = []
            output.reserveCapacity(bytes.count)
            for index in bytes.indices {
                let byte = bytes[index]
                // The two cases differ in one bit.
                output.append(letters.contains(byte) ? byte ^ 0x20 : byte)
            }
            return Text(utf8: output.span)
        }
    }
}
