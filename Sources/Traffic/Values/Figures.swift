/// Numbers and texts for reports and JSON, without Foundation.
package enum Figures {
    /// `{"name":value,…}`. The values are JSON already.
    package static func object(_ members: [(String, String)]) -> String {
        "{" + members.map { quoted($0.0) + ":" + $0.1 }.joined(separator: ",") + "}"
    }

    /// A JSON string.
    package static func quoted(_ text: String) -> String {
        var output = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": output += "\\\(scalar)"
            case _ where scalar.value < 0x20: output += " "
            default: output.unicodeScalars.append(scalar)
            }
        }
        return output + "\""
    }

    /// `12.30`
    package static func decimal(_ value: Double, places: Int) -> String {
        guard value.isFinite, value.magnitude < 1e15 else { return "0" }
        var scale = 1
        for _ in 0..<places { scale *= 10 }
        let scaled = Int((value.magnitude * Double(scale)).rounded())
        let sign = value < 0 && scaled > 0 ? "-" : ""
        guard places > 0 else { return sign + String(scaled) }
        let fraction = String(scaled % scale)
        return sign + String(scaled / scale) + "." + String(repeating: "0", count: places - fraction.count)
            + fraction
    }

    /// `1 234 567`
    package static func grouped(_ value: Double) -> String {
        var digits = decimal(value, places: 0)
        var groups: [String] = []
        while digits.count > 3 {
            groups.insert(String(digits.suffix(3)), at: 0)
            digits.removeLast(3)
        }
        return ([digits] + groups).joined(separator: " ")
    }

    /// Lines of equally wide columns: the first flush left, the others right.
    package static func table(_ rows: [[String]]) -> String {
        var widths: [Int] = []
        for row in rows {
            for (column, cell) in row.enumerated() {
                if column == widths.count { widths.append(0) }
                widths[column] = max(widths[column], cell.count)
            }
        }
        return rows.map { row in
            row.enumerated().map { column, cell in
                let padding = String(repeating: " ", count: widths[column] - cell.count)
                return column == 0 ? cell + padding : padding + cell
            }.joined(separator: "  ")
        }.joined(separator: "\n")
    }
}
