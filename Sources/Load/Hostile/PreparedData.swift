import PandoBytes

/// Data that attackers and honest clients need, written before the first phase.
enum PreparedData: String, CaseIterable, Sendable {
    /// Children with a member `x` each.
    case children20k, children100k, children200k
    /// Children with a number each.
    case windows
    /// Strings of 1 MB.
    case large5MB, large12MB
    /// One string.
    case small1KB

    static let largeChildByteCount = 1_000_000

    /// Children of one write: less than a server accepts in one.
    private static let childrenPerWrite = 10_000

    /// Without the leading slash.
    func path(at site: HostileSite) -> String { "\(site.root)/data/\(rawValue)" }

    /// Children, or strings; 0 of a single string.
    var childCount: Int {
        switch self {
        case .children20k: 20_000
        case .children100k: 100_000
        case .children200k: 200_000
        case .windows: 1000
        case .large5MB: 5
        case .large12MB: 12
        case .small1KB: 0
        }
    }

    /// A write of a part of the data.
    struct Write {
        let method: StaticString
        let path: String
        let body: [UInt8]
    }

    /// How many writes there are. They are sent one by one, so that not all of them are in memory.
    var writeCount: Int {
        switch self {
        case .children20k, .children100k, .children200k, .windows:
            (childCount + Self.childrenPerWrite - 1) / Self.childrenPerWrite
        case .large5MB, .large12MB: childCount
        case .small1KB: 1
        }
    }

    func write(_ index: Int, at site: HostileSite) -> Write {
        var body: [UInt8] = []
        switch self {
        case .small1KB:
            body.append(stringOf: 1024)
            return Write(method: "PUT", path: path(at: site), body: body)
        case .large5MB, .large12MB:
            body.append(stringOf: Self.largeChildByteCount)
            return Write(method: "PUT", path: "\(path(at: site))/c\(index)", body: body)
        case .children20k, .children100k, .children200k, .windows:
            let start = index * Self.childrenPerWrite
            let children = start..<min(childCount, start + Self.childrenPerWrite)
            if self == .windows { body.append(numbers: children) } else { body.append(children: children) }
            return Write(method: "PATCH", path: path(at: site), body: body)
        }
    }
}

extension [UInt8] {
    /// Appends an object with children `c0`, `c1` … that have their number as a member `x`.
    mutating func append(children: Range<Int>) {
        append(members: children) { output, child in
            output.append(#"{"x":"#)
            output.append(decimal: Int64(child))
            output.append("}")
        }
    }

    /// The same with the number as their value.
    mutating func append(numbers children: Range<Int>) {
        append(members: children) { $0.append(decimal: Int64($1)) }
    }

    private mutating func append(members: Range<Int>, _ appendValue: (inout [UInt8], Int) -> Void) {
        append("{")
        for member in members {
            append(member == members.lowerBound ? #""c"# : #","c"#)
            append(decimal: Int64(member))
            append(#"":"#)
            appendValue(&self, member)
        }
        append("}")
    }

    /// Appends a JSON string.
    mutating func append(stringOf byteCount: Int) {
        append(UInt8(ascii: #"""#))
        append(contentsOf: repeatElement(UInt8(ascii: "x"), count: byteCount))
        append(UInt8(ascii: #"""#))
    }
}
