import Glibc
import PandoTraffic

/// One plot as inline SVG: lines over two axes, either of them logarithmic.
struct Plot {
    struct Line {
        let name: String
        let points: [(x: Double, y: Double)]
    }

    private static let (width, height) = (860.0, 340.0)
    private static let (left, right, top, bottom) = (80.0, 20.0, 20.0, 48.0)
    /// Each line has its own dashes, so that lines can be distinguished without colours.
    private static let colours = ["#2563eb", "#d97706", "#059669", "#be185d", "#6d28d9", "#475569"]
    private static let dashes = ["", "6 3", "2 3", "8 3 2 3", "12 4", "1 4"]

    let title: String
    let xName: String
    let yName: String
    let xMarks: [(value: Double, name: String)]
    let isLogarithmic: Bool
    let lines: [Line]

    /// The plot, or a sentence when there is nothing to draw.
    var svg: String {
        let points = lines.flatMap(\.points)
        guard let xLow = points.map(\.x).min(), let xHigh = points.map(\.x).max() else {
            return "<p>\(HTMLReport.escaped(title)): nothing was measured.</p>"
        }
        let (yLow, yHigh) = yRange(points.map(\.y))
        let xSpan = max(xHigh - xLow, 1e-9)
        func x(_ value: Double) -> Double {
            Self.left + (value - xLow) / xSpan * (Self.width - Self.left - Self.right)
        }
        func y(_ value: Double) -> Double {
            let share = (scaled(value) - scaled(yLow)) / max(scaled(yHigh) - scaled(yLow), 1e-9)
            return Self.height - Self.bottom - share * (Self.height - Self.top - Self.bottom)
        }
        var svg = "<figure><figcaption>\(HTMLReport.escaped(title))</figcaption>"
        svg += "<svg viewBox=\"0 0 \(Int(Self.width)) \(Int(Self.height))\" role=\"img\">"
        for mark in yMarks(yLow, yHigh) {
            svg += line(Self.left, y(mark), Self.width - Self.right, y(mark), "grid")
            svg += text(Self.left - 6, y(mark) + 4, Figures.grouped(mark), "end")
        }
        for mark in xMarks where mark.value >= xLow && mark.value <= xHigh {
            svg += line(x(mark.value), Self.top, x(mark.value), Self.height - Self.bottom, "grid")
            svg += text(x(mark.value), Self.height - Self.bottom + 16, mark.name, "middle")
        }
        svg += text((Self.left + Self.width) / 2, Self.height - 10, xName, "middle")
        svg += text(4, 14, yName, "start")
        for (index, drawn) in lines.enumerated() where !drawn.points.isEmpty {
            let path = drawn.points.map { "\(short(x($0.x))),\(short(y($0.y)))" }.joined(separator: " ")
            svg += "<polyline points=\"\(path)\" fill=\"none\" stroke=\"\(Self.colours[index % 6])\" "
            svg += "stroke-width=\"2\" stroke-dasharray=\"\(Self.dashes[index % 6])\"/>"
        }
        return svg + "</svg>" + legend + "</figure>"
    }

    private var legend: String {
        let entries = lines.enumerated().map { index, line in
            "<span style=\"color:\(Self.colours[index % 6])\">■</span> \(HTMLReport.escaped(line.name))"
        }
        return "<p class=\"legend\">\(entries.joined(separator: " &nbsp; "))</p>"
    }

    private func yRange(_ values: [Double]) -> (Double, Double) {
        let high = values.max() ?? 1
        guard isLogarithmic else { return (0, max(high * 1.05, 1)) }
        let low = max(1, values.min() ?? 1)
        return (pow(10, log10(low).rounded(.down)), pow(10, log10(max(low * 1.01, high)).rounded(.up)))
    }

    private func scaled(_ value: Double) -> Double { isLogarithmic ? log10(max(1e-3, value)) : value }

    private func yMarks(_ low: Double, _ high: Double) -> [Double] {
        guard isLogarithmic else {
            let step = pow(10, log10(max(high, 1)).rounded(.down))
            let fine = high / step < 3 ? step / 2 : step
            return Array(stride(from: 0, through: high, by: max(fine, 1e-9)).prefix(20))
        }
        return Array(sequence(first: low) { $0 * 10 }.prefix { $0 <= high * 1.001 }.prefix(12))
    }

    private func line(_ x1: Double, _ y1: Double, _ x2: Double, _ y2: Double, _ kind: String) -> String {
        "<line x1=\"\(short(x1))\" y1=\"\(short(y1))\" x2=\"\(short(x2))\" y2=\"\(short(y2))\" class=\"\(kind)\"/>"
    }

    private func text(_ x: Double, _ y: Double, _ words: String, _ anchor: String) -> String {
        "<text x=\"\(short(x))\" y=\"\(short(y))\" text-anchor=\"\(anchor)\">\(HTMLReport.escaped(words))</text>"
    }

    private func short(_ value: Double) -> String { Figures.decimal(value, places: 1) }
}
