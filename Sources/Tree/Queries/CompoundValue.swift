import PandoBytes

/// The value by which an order of several fields (``ChildOrder/compound(_:)``) places a child: one text,
/// which holds the fields' values so that texts compare as the lists of values do (realtime §7.6).
///
///     field     nothing "0" · false "1" · true "2" · object "5"
///               number  "3", then the bits of its double, made ascending, as 16 hexadecimal digits
///               string  "4", then the string with U+0000 as U+0000 U+0001, then U+0000 U+0000; of a string of more
///                       than ``stringByteCount`` bytes only the beginning, then U+0000 U+0002
///
/// Everything but the strings is ASCII, and U+0000 is before all other characters, also in the order of
/// UTF-16 units. So a string is before those that it is the beginning of, and no field is the beginning of
/// another one.
package enum CompoundValue {
    /// UTF-8 bytes of a string by which children are ordered. What follows does not distinguish two strings:
    /// otherwise the comparison of two children would copy up to ``Limits/stringByteCount`` bytes. No field
    /// of a query's `where` has more, so equality is exact.
    package static let stringByteCount = 1024

    /// What is after all values that begin with some fields: no field begins with it.
    private static let afterAllFields = UInt8(ascii: "9")

    /// The value of a child. O(fields × depth × log n).
    static func value(of child: Node, by fields: [Path]) -> Node {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(64)
        for field in fields { append(child[field], to: &bytes) }
        return .string(Text(utf8: bytes.span))
    }

    /// The place of these fields: a whole value, or the beginning of one, which is before all values that
    /// begin with it.
    /// - Parameter isAfter: After all of these instead.
    static func place(of fields: [Node], isAfter: Bool = false) -> Node {
        var bytes: [UInt8] = []
        for field in fields { append(field, to: &bytes) }
        if isAfter { bytes.append(afterAllFields) }
        return .string(Text(utf8: bytes.span))
    }

    private static func append(_ field: Node, to bytes: inout [UInt8]) {
        switch field.withoutPriority {
        case .empty, .prioritized: bytes.append(UInt8(ascii: "0"))
        case .boolean(false): bytes.append(UInt8(ascii: "1"))
        case .boolean(true): bytes.append(UInt8(ascii: "2"))
        case .integer(let value): append(Double(value), to: &bytes)
        case .double(let value): append(value, to: &bytes)
        case .string(let text): append(text, to: &bytes)
        case .object: bytes.append(UInt8(ascii: "5"))
        }
    }

    private static func append(_ number: Double, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "3"))
        // The bits of a positive double ascend with it, and those of a negative one descend. −0 is 0 (§8.5).
        let bits = (number == 0 ? 0 : number).bitPattern
        let ordered = bits >> 63 == 0 ? bits | 1 << 63 : ~bits
        for shift in stride(from: UInt64(60), through: 0, by: -4) {
            let digit = UInt8(truncatingIfNeeded: ordered >> shift & 15)
            bytes.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
        }
    }

    private static func append(_ text: Text, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "4"))
        text.withBytes { string in
            var count = min(string.count, stringByteCount)
            // Whole characters: bytes that continue one are 10xxxxxx.
            if count < string.count { while count > 0, string[count] & 0xC0 == 0x80 { count -= 1 } }
            for index in 0..<count {
                bytes.append(string[index])
                if string[index] == 0 { bytes.append(1) }
            }
            bytes.append(0)
            bytes.append(count < string.count ? 2 : 0)
        }
    }

    /// The fields that a place begins with, of which there may be fewer than it was made of: an object or the
    /// cut beginning of a string ends the list, since its value is not known. O(bytes).
    static func fields(of place: Node) -> [Node] {
        guard case .string(let text) = place else { return [] }
        return text.withBytes { bytes in
            var fields: [Node] = []
            var index = 0
            while index < bytes.count {
                let type = bytes[index]
                index += 1
                switch type {
                case UInt8(ascii: "0"): fields.append(.empty)
                case UInt8(ascii: "1"): fields.append(.boolean(false))
                case UInt8(ascii: "2"): fields.append(.boolean(true))
                case UInt8(ascii: "3"):
                    guard let number = number(bytes, &index) else { return fields }
                    fields.append(.number(number))
                case UInt8(ascii: "4"):
                    guard let text = string(bytes, &index) else { return fields }
                    fields.append(.string(text))
                default: return fields
                }
            }
            return fields
        }
    }

    private static func number(_ bytes: Span<UInt8>, _ index: inout Int) -> Double? {
        guard bytes.count - index >= 16 else { return nil }
        var ordered: UInt64 = 0
        for _ in 0..<16 {
            let digit = bytes[index]
            let isLetter = digit >= UInt8(ascii: "a")
            ordered =
                ordered << 4
                | UInt64((digit &- (isLetter ? UInt8(ascii: "a") &- 10 : UInt8(ascii: "0"))) & 15)
            index += 1
        }
        let number = Double(bitPattern: ordered >> 63 == 1 ? ordered & (1 << 63 - 1) : ~ordered)
        return number.isFinite ? number : nil
    }

    private static func string(_ bytes: Span<UInt8>, _ index: inout Int) -> Text? {
        var string: [UInt8] = []
        while index < bytes.count {
            let byte = bytes[index]
            index += 1
            if byte != 0 {
                string.append(byte)
                continue
            }
            guard index < bytes.count else { return nil }
            let mark = bytes[index]
            index += 1
            guard mark == 1 else { return mark == 0 ? Text(validating: string.span) : nil }
            string.append(0)
        }
        return nil
    }
}
