import PandoBytes
import PandoRandom
import Testing

func utf8(_ text: String) -> [UInt8] { Array(text.utf8) }
func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

@Suite struct TextPrefixes {
    /// Texts are cut by their bytes, before a whole Unicode scalar.
    @Test(
        arguments: [
            // text         bytes  prefix
            ("", 0, ""), ("", 3, ""), ("", -1, ""), ("abc", -1, ""), ("abc", .min, ""),
            ("a long one in a storage of its own", -1, ""), ("abc", 4, "abc"), ("abc", 3, "abc"),
            ("abc", 2, "ab"), ("abc", 0, ""),
            ("aé", 3, "aé"), ("aé", 2, "a"), ("é", 1, ""), ("€€", 5, "€"), ("€€", 3, "€"), ("€", 2, ""),
            ("🐵🐵", 7, "🐵"), ("🐵", 3, ""), ("e\u{301}\u{301}", 4, "e\u{301}"),
            ("e\u{301}\u{301}", 3, "e\u{301}"),
            ("twenty bytes or more", 8, "twenty b"), ("twenty bytes or more", 16, "twenty bytes or "),
        ] as [(String, Int, String)])
    func prefixes(whole: String, byteCount: Int, prefix: String) {
        #expect(utf8(whole.prefix(byteCount: byteCount)) == utf8(prefix))
        #expect(Text(whole).prefix(byteCount: byteCount) == Text(prefix))
    }
}

@Suite struct Base64 {
    func encode(_ bytes: [UInt8], _ alphabet: Base64Alphabet = .standard) -> String {
        var output: [UInt8] = []
        output.append(base64: bytes.rawSpan, alphabet: alphabet)
        return text(output)
    }

    /// RFC 4648 §10
    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ])
    func vectors(plain: String, encoded: String) {
        #expect(encode(utf8(plain)) == encoded)
        #expect(decodeBase64(utf8(encoded).rawSpan) == utf8(plain))
        let bare = String(encoded.prefix { $0 != "=" })
        #expect(encode(utf8(plain), .urlSafe) == bare)
        #expect(decodeBase64(utf8(bare).rawSpan) == utf8(plain), "padding may be missing")
    }

    @Test func alphabets() {
        #expect(encode([0xFB, 0xEF, 0xFF]) == "++//" && encode([0xFB, 0xEF, 0xFF], .urlSafe) == "--__")
        #expect(
            decodeBase64(utf8("++//").rawSpan) == [0xFB, 0xEF, 0xFF]
                && decodeBase64(utf8("--__").rawSpan) == nil)
        #expect(
            decodeBase64(utf8("--__").rawSpan, alphabet: .urlSafe) == [0xFB, 0xEF, 0xFF]
                && decodeBase64(utf8("++//").rawSpan, alphabet: .urlSafe) == nil)
    }

    @Test(arguments: [
        ("Z", "six bits are no byte"), ("Zm9vY", "six bits are no byte"), ("=", "nothing but padding"),
        ("==", "nothing but padding"), ("====", "nothing but padding"), ("Zg=", "half the padding"),
        ("Zm8==", "too much padding"), ("Zm9v=", "padding for nothing"),
        ("Zg===", "too much padding"), ("Z===", "six bits are no byte"), ("Zh==", "spare bits"),
        ("Zm9=", "spare bits"), ("Zh", "spare bits"), ("Z g=", "a space"), ("Zg==\n", "a new line"),
        ("=Zg=", "padding in front"), ("Zg==Zg==", "padding inside"), ("Zm\u{E9}", "a foreign letter"),
        ("Zm8\0", "a NUL"),
    ])
    func refused(encoded: String, reason: String) {
        #expect(decodeBase64(utf8(encoded).rawSpan) == nil, "\(reason)")
    }

    @Test(arguments: [Base64Alphabet.standard, .urlSafe]) func everyLengthRoundTrips(alphabet: Base64Alphabet)
    {
        var generator = SeededGenerator(seed: 1)
        for count in 0..<200 {
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            #expect(decodeBase64(utf8(encode(bytes, alphabet)).rawSpan, alphabet: alphabet) == bytes)
        }
    }
}

@Suite struct SHA1Vectors {
    func hex(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// FIPS 180-4 and RFC 3174
    @Test(arguments: [
        ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"), ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
        ),
        (
            String(repeating: "0123456701234567012345670123456701234567012345670123456701234567", count: 10),
            "dea356a2cddd90c7a7ecedc5ebb563934f460452"
        ),
        (String(repeating: "a", count: 1_000_000), "34aa973cd4c4daa4f61eeb2bdbad27316534016f"),
    ])
    func vectors(plain: String, digest: String) {
        var whole = SHA1()
        whole.update(utf8(plain).rawSpan)
        #expect(hex(whole.finish()) == digest)
        var pieces = SHA1()
        var rest = utf8(plain)[...]
        var size = 1
        while !rest.isEmpty {
            pieces.update(Array(rest.prefix(size)).rawSpan)
            rest = rest.dropFirst(size)
            size = size % 130 + 7
        }
        var base64: [UInt8] = utf8("x")
        pieces.finish(appendingBase64To: &base64)
        #expect(text(base64) == "x" + SHA1.base64(of: utf8(plain).rawSpan))
    }

    /// RFC 6455 §1.3
    @Test func handshake() {
        #expect(
            SHA1.base64(of: utf8("dGhlIHNhbXBsZSBub25jZQ==258EAFA5-E914-47DA-95CA-C5AB0DC85B11").rawSpan)
                == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    }
}

@Suite struct UTF8Validation {
    func validates(_ bytes: [UInt8], cutAt cuts: [Int] = []) -> Bool {
        var validator = UTF8Validator()
        var start = 0
        for end in cuts + [bytes.count] {
            guard validator.accept(Array(bytes[start..<end]).rawSpan) else { return false }
            start = end
        }
        return validator.isAtBoundary
    }

    func isText(_ bytes: [UInt8]) -> Bool { String(validating: bytes, as: UTF8.self) != nil }

    @Test func everySequenceOfOneAndTwoBytes() {
        for a in UInt8.min...UInt8.max {
            if validates([a]) != isText([a]) { Issue.record("\([a])") }
            for b in UInt8.min...UInt8.max {
                let bytes = [a, b]
                let expected = isText(bytes)
                if validates(bytes) != expected || validates(bytes, cutAt: [1]) != expected {
                    Issue.record("\(bytes)")
                }
            }
        }
    }

    /// Every lead byte with the edges of each range of continuation bytes behind it.
    @Test func threeAndFourBytesAtEveryCut() {
        let edges: [UInt8] = [
            0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0xFF,
        ]
        for a in UInt8(0x7F)...0xFF {
            for b in edges {
                for c in edges {
                    let three = [a, b, c]
                    let expected = isText(three)
                    for cuts in [[], [1], [2], [1, 2]] where validates(three, cutAt: cuts) != expected {
                        Issue.record("\(three)")
                    }
                    guard a >= 0xEE else { continue }
                    for d in edges {
                        let four = [a, b, c, d]
                        let expected = isText(four)
                        for cuts in [[], [1], [2], [3], [1, 2, 3]]
                        where validates(four, cutAt: cuts) != expected { Issue.record("\(four)") }
                    }
                }
            }
        }
    }

    @Test(arguments: 0..<20) func random(seed: Int) {
        var generator = SeededGenerator(seed: seed)
        let scalars: [Unicode.Scalar] = [
            "a", "\u{0}", "\u{7F}", "\u{80}", "\u{7FF}", "\u{800}", "\u{D7FF}", "\u{E000}", "\u{FFFF}",
            "\u{10000}", "\u{10FFFF}",
        ]
        for _ in 0..<300 {
            var view = String.UnicodeScalarView()
            // Runs of ASCII long enough for eight bytes at a time.
            for _ in 0..<Int.random(in: 0...12, using: &generator) {
                if Int.random(in: 0..<3, using: &generator) == 0 {
                    view.append(contentsOf: "0123456789abcdef".unicodeScalars)
                }
                view.append(scalars[Int.random(in: 0..<scalars.count, using: &generator)])
            }
            var bytes = Array(String(view).utf8)
            if !bytes.isEmpty, Int.random(in: 0..<2, using: &generator) == 0 {
                bytes[Int.random(in: 0..<bytes.count, using: &generator)] = UInt8.random(
                    in: 0...255, using: &generator)
            }
            let cuts = (0..<3).map { _ in Int.random(in: 0...bytes.count, using: &generator) }.sorted()
            let expected = isText(bytes)
            if validates(bytes) != expected || validates(bytes, cutAt: cuts) != expected
                || isValidUTF8(bytes.rawSpan) != expected
            {
                Issue.record("\(bytes) \(cuts)")
            }
        }
    }

    @Test func refusesAtTheFirstInvalidByte() {
        var validator = UTF8Validator()
        let accepted = validator.accept([0xE0, 0x80].rawSpan)
        #expect(!accepted, "overlong, though a byte is missing")
        var other = UTF8Validator()
        let unfinished = other.accept([0xF0, 0x9F].rawSpan)
        #expect(unfinished && !other.isAtBoundary)
    }
}

@Suite struct Writers {
    /// Writes what an array would have appended, while it fits, and nothing of what does
    /// not fit.
    @Test(arguments: 0..<40) func writesOnlyWithinItsCapacity(byteCount: Int) {
        let steps: [(String, (inout [UInt8]) -> Void, (inout ByteWriter) -> Void)] = [
            ("a byte", { $0.append(7) }, { $0.append(7) }),
            ("a varint", { $0.append(varint: 300) }, { $0.append(varint: 300) }),
            (
                "an integer", { $0.append(littleEndian: UInt32(0x0102_0304)) },
                { $0.append(littleEndian: UInt32(0x0102_0304)) }
            ),
            ("bytes", { $0 += utf8("hello") }, { $0.append(utf8("hello").rawSpan) }),
            ("no bytes", { $0 += [] }, { $0.append([UInt8]().rawSpan) }),
            ("a text", { $0.append("text" as StaticString) }, { $0.append("text" as StaticString) }),
            ("a number", { $0.append(decimal: Int64(-1203)) }, { $0.append(decimal: Int64(-1203)) }),
            ("the longest varint", { $0.append(varint: .max) }, { $0.append(varint: .max) }),
        ]
        var wanted = utf8("before")
        var found = wanted
        found.append(atMost: byteCount) { writer in
            #expect(writer.capacity == byteCount && writer.count == 0)
            for (name, appending, writing) in steps {
                let (start, before) = (writer.count, wanted.count)
                appending(&wanted)
                writing(&writer)
                let fits = wanted.count - 6 <= byteCount
                #expect(writer.isOverrun == !fits, "\(name) in \(byteCount)")
                if fits {
                    #expect(writer.count == wanted.count - 6)
                } else {
                    writer.truncate(to: start)
                    #expect(!writer.isOverrun && writer.count == start)
                    wanted.removeSubrange(before...)
                }
            }
        }
        #expect(found == wanted)
    }

    @Test func replaced() {
        var bytes: [UInt8] = [9]
        bytes.append(atMost: 3) { writer in
            writer.append(1)
            writer.append(2)
            writer.replace(7, at: 0)
        }
        #expect(bytes == [9, 7, 2])
    }

    /// Memory for a write is given completely or not at all, and only what was written counts.
    @Test func writesIntoReservedBytes() {
        var bytes: [UInt8] = []
        bytes.append(atMost: 10) { writer in
            let taken = unsafe writer.write(into: 8) { bytes in
                unsafe bytes[0] = 1
                unsafe bytes[1] = 2
                return 2
            }
            #expect(taken && writer.count == 2)
            #expect(unsafe !writer.write(into: 8) { _ in nil } && writer.count == 2, "not wanted")
            #expect(unsafe !writer.write(into: 9) { _ in 9 } && writer.count == 2, "not enough capacity")
            #expect(!writer.isOverrun)
        }
        #expect(bytes == [1, 2])
    }
}

@Suite struct Cursors {
    @Test func reading() {
        withCursor(over: utf8("0123456789").rawSpan) { cursor in
            #expect(cursor.count == 10 && cursor.remaining == 10 && !cursor.isAtEnd)
            #expect(
                cursor.current == 0x30 && cursor.peek(0) == 0x30 && cursor.peek(9) == 0x39
                    && cursor.peek(10) == 0)
            #expect(cursor.peek(-1) == 0 && cursor.peek(.max) == 0 && cursor.peek(.min) == 0)
            #expect(cursor.word == 0x3736_3534_3332_3130)
            cursor.advance(2)
            #expect(cursor.word == 0x3938_3736_3534_3332 && cursor.peek(-2) == 0x30 && cursor.peek(.max) == 0)
            cursor.advance()
            #expect(cursor.word == nil, "seven bytes are left")
            cursor.advance(.max)
            #expect(cursor.isAtEnd && cursor.offset == 10 && cursor.current == 0 && cursor.word == nil)
            cursor.advance()
            #expect(cursor.offset == 10)
            #expect(
                cursor[9] == 0x39 && cursor.string(2..<5) == "234" && cursor.array(8..<10) == [0x38, 0x39]
                    && cursor.array(10..<10) == [])
        }
        withCursor(over: [UInt8]().rawSpan) { cursor in
            #expect(cursor.isAtEnd && cursor.current == 0 && cursor.word == nil && cursor.string(0..<0) == "")
        }
    }

    @Test(
        arguments: [
            (0, [0]), (1, [1]), (0x7F, [0x7F]), (0x80, [0x80, 1]), (0x3FFF, [0xFF, 0x7F]),
            (0x4000, [0x80, 0x80, 1]), (0xFFFF_FFFF, [0xFF, 0xFF, 0xFF, 0xFF, 0x0F]),
            (1 << 63, [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1]),
            (.max, [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1]),
        ] as [(UInt64, [UInt8])])
    func varints(value: UInt64, bytes: [UInt8]) throws {
        var written: [UInt8] = []
        written.append(varint: value)
        #expect(written == bytes)
        try withCursor(over: (bytes + [7]).rawSpan) { (cursor) throws(TruncatedBytes) in
            let read = try cursor.readVarint()
            #expect(read == value)
            #expect(cursor.offset == bytes.count)
        }
        for end in bytes.indices {
            #expect(throws: TruncatedBytes.self) { try readVarint(Array(bytes[..<end])) }
        }
    }

    private func readVarint(_ bytes: [UInt8]) throws(TruncatedBytes) -> UInt64 {
        try withCursor(over: bytes.rawSpan) { (cursor) throws(TruncatedBytes) in try cursor.readVarint() }
    }

    @Test(arguments: [
        ([UInt8](repeating: 0xFF, count: 9) + [2], "a 65th bit"),
        ([UInt8](repeating: 0x80, count: 9) + [0x7F], "seven more bits"),
        ([UInt8](repeating: 0x80, count: 10) + [0], "an eleventh byte"),
        ([UInt8](repeating: 0xFF, count: 100), "no end"),
        ([UInt8](repeating: 0x80, count: 9) + [0x81, 0], "an eleventh byte"),
    ])
    func impossibleVarints(bytes: [UInt8], reason: String) {
        #expect(throws: TruncatedBytes.self, "\(reason)") { try readVarint(bytes) }
    }

    @Test func countedText() throws {
        var bytes: [UInt8] = []
        bytes.append(counted: "é🐵")
        bytes.append(counted: "")
        bytes.append(counted: String(repeating: "x", count: 300))
        try withCursor(over: bytes.rawSpan) { (cursor) throws(TruncatedBytes) in
            let (first, second, third) = (
                try cursor.readCounted(), try cursor.readCounted(), try cursor.readCounted()
            )
            #expect(cursor.string(first) == "é🐵")
            #expect(cursor.string(second) == "")
            #expect(third.count == 300)
            #expect(cursor.isAtEnd)
        }
        for claim in [UInt64(4), 1000, UInt64(Int64.max), .max] {
            var lie: [UInt8] = []
            lie.append(varint: claim)
            lie += [1, 2, 3]
            #expect(throws: TruncatedBytes.self) {
                try withCursor(over: lie.rawSpan) { (cursor) throws(TruncatedBytes) in
                    try cursor.readCounted()
                }
            }
        }
    }

    @Test func integers() throws {
        var bytes: [UInt8] = []
        bytes.append(littleEndian: UInt16(0x0102))
        bytes.append(littleEndian: Int64.min)
        bytes.append(littleEndian: UInt32(0))
        bytes.replace(littleEndian: UInt32(0xDEAD_BEEF), at: 10)
        #expect(bytes == [2, 1, 0, 0, 0, 0, 0, 0, 0, 0x80, 0xEF, 0xBE, 0xAD, 0xDE])
        try withCursor(over: bytes.rawSpan) { (cursor) throws(TruncatedBytes) in
            let first = try cursor.readLittleEndian(UInt16.self)
            let second = try cursor.readLittleEndian(Int64.self)
            let third = try cursor.readLittleEndian(UInt32.self)
            #expect(first == 0x0102 && second == .min && third == 0xDEAD_BEEF)
            #expect(cursor.isAtEnd)
        }
        #expect(throws: TruncatedBytes.self) {
            try withCursor(over: [1, 2, 3].rawSpan) { (cursor) throws(TruncatedBytes) in
                try cursor.readLittleEndian(UInt32.self)
            }
        }
    }

    @Test(arguments: [0, 9, 10, 99, 100, 12_345_678_901, UInt64.max, UInt64(Int64.max) + 1])
    func decimals(value: UInt64) {
        var bytes: [UInt8] = []
        bytes.append(decimal: value)
        #expect(text(bytes) == String(value))
        for signed in [Int64(truncatingIfNeeded: value), -Int64(truncatingIfNeeded: value >> 1)] {
            var bytes: [UInt8] = []
            bytes.append(decimal: signed)
            #expect(text(bytes) == String(signed))
        }
    }

    @Test func leastInteger() {
        var bytes: [UInt8] = []
        bytes.append(decimal: Int64.min)
        #expect(text(bytes) == "-9223372036854775808")
    }

    @Test(arguments: [0, 1, 7, 8, 9, 1000]) func shared(count: Int) {
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
        let shared = SharedBytes(bytes)
        #expect(shared.count == count && shared.array == bytes)
    }
}
