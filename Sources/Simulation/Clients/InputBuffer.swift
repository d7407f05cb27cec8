/// Bytes that a client has received and not decoded.
struct InputBuffer {
    private var bytes: [UInt8] = []
    private var offset = 0

    var count: Int { bytes.count - offset }
    /// What is not decoded.
    var rest: ArraySlice<UInt8> { bytes[offset...] }

    mutating func append(_ new: [UInt8]) {
        if offset == bytes.count {
            bytes = new
            offset = 0
        } else {
            bytes += new
        }
    }

    /// - Precondition: `count` bytes are there.
    mutating func removeFirst(_ count: Int) -> ArraySlice<UInt8> {
        defer { offset += count }
        return bytes[offset..<offset + count]
    }

    /// The bytes up to the first occurrence of a text and with it; nil while it is not there.
    func prefix(through text: StaticString) -> ArraySlice<UInt8>? {
        let pattern = Array("\(text)".utf8)
        var start = offset
        while let first = bytes[start...].firstIndex(of: pattern[0]), first + pattern.count <= bytes.count {
            let end = first + pattern.count
            if bytes[first..<end].elementsEqual(pattern) { return bytes[offset..<end] }
            start = first + 1
        }
        return nil
    }
}
