/// The formats in which Prometheus reads metrics.
package enum ExpositionFormat: Sendable {
    /// Prometheus' own, version 0.0.4.
    case prometheus
    /// OpenMetrics 1.0.
    case openMetrics

    package var contentType: String {
        switch self {
        case .prometheus: "text/plain; version=0.0.4; charset=utf-8"
        case .openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8"
        }
    }

    /// The format that a client prefers (RFC 9110 §12.5.1): OpenMetrics where it is asked for by its name, in
    /// version 1.0.0 or none, and weighs at least as much as any other text; else Prometheus' own.
    /// - Parameter accept: The value of `Accept`; several fields are joined by commas.
    package init(accept: String?) {
        var openMetrics = 0.0
        var other = 0.0
        for range in (accept ?? "").lowercased().split(separator: ",") {
            let parts = range.split(separator: ";").map(Self.trimmed)
            guard let type = parts.first else { continue }
            let weight = parts.lazy.compactMap(Self.weight).first ?? 1
            switch type {
            case "application/openmetrics-text":
                let version = parts.dropFirst().first { $0.hasPrefix("version=") }
                guard version == nil || version == "version=1.0.0" || version == "version=\"1.0.0\"" else {
                    continue
                }
                openMetrics = max(openMetrics, weight)
            case "text/plain", "text/*", "*/*": other = max(other, weight)
            default: break
            }
        }
        self = openMetrics > 0 && openMetrics >= other ? .openMetrics : .prometheus
    }

    private static func trimmed(_ part: Substring) -> Substring {
        let isBlank = { (character: Character) in character == " " || character == "\t" }
        return part.drop(while: isBlank).reversed().drop(while: isBlank).reversed().reduce(into: Substring())
        {
            $0.append($1)
        }
    }

    /// The weight that `q=0.5` says; nil for another parameter. One that is none counts as 0.
    private static func weight(_ parameter: Substring) -> Double? {
        guard parameter.hasPrefix("q=") else { return nil }
        guard let weight = Double(parameter.dropFirst(2)), weight >= 0, weight <= 1 else { return 0 }
        return weight
    }
}

extension [UInt8] {
    mutating func append(text: some StringProtocol) { append(contentsOf: text.utf8) }

    /// Appends a metric with its comments.
    mutating func append(_ family: MetricFamily, _ format: ExpositionFormat) {
        // In OpenMetrics a family is named without the suffix of its samples.
        let familyName =
            switch (format, family.kind) {
            case (.openMetrics, .counter): family.name.dropLast("_total".count)
            case (.openMetrics, .info): family.name.dropLast("_info".count)
            default: family.name[...]
            }
        append(text: "# HELP \(familyName) ")
        append(escaped: family.help, quotes: format == .openMetrics)
        append(text: "\n# TYPE \(familyName) \(family.kind.word(in: format))\n")
        if format == .openMetrics, let unit = family.unit { append(text: "# UNIT \(familyName) \(unit)\n") }
        for sample in family.samples() {
            switch sample.value {
            case .integer(let value): append(sample: family.name, sample.labels, String(value))
            case .unsigned(let value): append(sample: family.name, sample.labels, String(value))
            case .number(let value): append(sample: family.name, sample.labels, Self.text(of: value))
            case .histogram(let histogram): append(family.name, sample.labels, histogram)
            }
        }
    }

    private mutating func append(
        _ name: String, _ labels: [(name: String, value: String)], _ histogram: HistogramSnapshot
    ) {
        for (index, count) in histogram.cumulativeCounts.enumerated() {
            let bound = index < histogram.bounds.count ? Self.text(of: histogram.bounds[index]) : "+Inf"
            append(sample: name + "_bucket", labels + [("le", bound)], String(count))
        }
        append(sample: name + "_sum", labels, Self.text(of: histogram.sum))
        append(sample: name + "_count", labels, String(histogram.cumulativeCounts.last ?? 0))
    }

    private mutating func append(
        sample name: String, _ labels: [(name: String, value: String)], _ value: String
    ) {
        append(text: name)
        for (index, label) in labels.enumerated() {
            append(text: index == 0 ? "{" : ",")
            append(text: label.name)
            append(text: "=\"")
            append(escaped: label.value, quotes: true)
            append(text: "\"")
        }
        append(text: labels.isEmpty ? " " : "} ")
        append(text: value)
        append(text: "\n")
    }

    /// Appends a text in which backslashes and line feeds, and quotes where they end the text, are escaped.
    private mutating func append(escaped text: String, quotes: Bool) {
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\\"): append(text: "\\\\")
            case UInt8(ascii: "\n"): append(text: "\\n")
            case UInt8(ascii: "\"") where quotes: append(text: "\\\"")
            default: append(byte)
            }
        }
    }

    /// As both formats write a number.
    private static func text(of value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        return "\(value)"
    }
}

extension MetricFamily.Kind {
    fileprivate func word(in format: ExpositionFormat) -> String {
        switch self {
        case .counter: "counter"
        case .gauge: "gauge"
        case .histogram: "histogram"
        // Prometheus' own format has no such type.
        case .info: format == .openMetrics ? "info" : "gauge"
        }
    }
}
