import PandoBytes

/// Data that attackers and honest clients need, written before the first phase.
enum PreparedData: String, CaseIterable, Sendable {
    /// Children with a member `x` each.
    case children20k, children200k
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

    private var childCount: Int {
        switch self {
        case .children20k: 20_000
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
        case .children20k, .children200k, .windows:
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
        case .children20k, .children200k, .windows:
            let start = index * Self.childrenPerWrite
            for child in start..<min(childCount, start + Self.childrenPerWrite) {
                body.append(child == start ? "{" : ",")
                body.append(#""c"#)
                body.append(decimal: Int64(child))
                body.append(self == .windows ? #"":"# : #"":{"x":"#)
                body.append(decimal: Int64(child))
                if self != .windows { body.append("}") }
            }
            body.append("}")
            return Write(method: "PATCH", path: path(at: site), body: body)
        }
    }
}

extension [UInt8] {
    /// Appends a JSON string.
    mutating func append(stringOf byteCount: Int) {
        append(UInt8(ascii: #"""#))
        append(contentsOf: repeatElement(UInt8(ascii: "x"), count: byteCount))
        append(UInt8(ascii: #"""#))
    }
}
