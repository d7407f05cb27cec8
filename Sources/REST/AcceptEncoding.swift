import PandoHTTP

extension RequestHead {
    /// Whether the client prefers a response in gzip (RFC 9110 §12.5.3): gzip has a weight above 0, by its
    /// name or through `*`, and not less than that of `identity`.
    var prefersGzip: Bool {
        guard fields.count(of: "accept-encoding") > 0 else { return false }
        var gzip: Int?
        var identity: Int?
        var others: Int?
        for value in fields.values(of: "accept-encoding") {
            guard let value = value.asciiString else { continue }
            for element in value.lowercased().split(separator: ",") {
                let parts = element.split(separator: ";", omittingEmptySubsequences: false)
                    .map { $0.filter { $0 != " " && $0 != "\t" } }
                // A malformed weight counts as 0: an uncompressed response is always acceptable.
                let weight = parts.dropFirst().first.map { Self.thousandths($0) ?? 0 } ?? 1000
                switch parts[0] {
                case "gzip", "x-gzip": gzip = max(gzip ?? 0, weight)
                case "identity": identity = weight
                case "*": others = weight
                default: break
                }
            }
        }
        let weight = gzip ?? others ?? 0
        return weight > 0 && weight >= identity ?? 0
    }

    /// `q=0.25` as 250 (RFC 9110 §12.4.2).
    private static func thousandths(_ text: String) -> Int? {
        guard text.hasPrefix("q=") else { return nil }
        let digits = text.utf8.dropFirst(2)
        guard let first = digits.first, first == UInt8(ascii: "0") || first == UInt8(ascii: "1") else {
            return nil
        }
        let rest = digits.dropFirst()
        guard rest.isEmpty || (rest.first == UInt8(ascii: ".") && rest.count <= 4) else { return nil }
        var value = Int(first - 0x30)
        for place in 0..<3 {
            let digit = rest.dropFirst(1 + place).first ?? UInt8(ascii: "0")
            guard digit >= 0x30, digit <= 0x39 else { return nil }
            value = value * 10 + Int(digit - 0x30)
        }
        return value <= 1000 ? value : nil
    }
}
