/// One metric: its name, what it means, and how its values are read.
package struct MetricFamily: Sendable {
    /// The types of the two exposition formats that we use.
    package enum Kind: Sendable {
        /// Only grows; its name ends with `_total`.
        case counter
        /// Goes up and down.
        case gauge
        /// Counts of values in ranges.
        case histogram
        /// Always 1; the labels are what it says. Its name ends with `_info`.
        case info
    }

    package enum Value: Sendable {
        case integer(Int64)
        case unsigned(UInt64)
        case number(Double)
        case histogram(HistogramSnapshot)
    }

    /// One value, with its labels in the order in which they are shown.
    package struct Sample: Sendable {
        package var labels: [(name: String, value: String)]
        package var value: Value

        package init(_ value: Value, labels: [(name: String, value: String)] = []) {
            self.labels = labels
            self.value = value
        }
    }

    package let name: String
    package let kind: Kind
    /// One sentence or more, of any characters.
    package let help: String
    /// Reads the values. Any thread may call it.
    package let samples: @Sendable () -> [Sample]

    /// - Precondition: The name is a valid one that begins with `pando_`, ends as its kind demands, and not
    ///   with the suffixes that formats use themselves.
    package init(_ kind: Kind, _ name: String, _ help: String, samples: @escaping @Sendable () -> [Sample]) {
        precondition(Self.isValid(name, kind), "\(name) is no name of a \(kind)")
        precondition(!help.isEmpty)
        self.name = name
        self.kind = kind
        self.help = help
        self.samples = samples
    }

    /// A metric of one value without labels.
    package init(_ kind: Kind, _ name: String, _ help: String, value: @escaping @Sendable () -> Value) {
        self.init(kind, name, help) { [Sample(value())] }
    }

    /// `seconds` or `bytes`, where the name says so; nil for a number without a unit.
    package var unit: String? {
        let base = kind == .counter ? name.dropLast("_total".count) : name[...]
        return ["seconds", "bytes"].first { base.hasSuffix("_" + $0) }
    }

    static func isValid(_ name: String, _ kind: Kind) -> Bool {
        guard name.hasPrefix("pando_"),
            name.utf8.allSatisfy({ byte in
                UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
                    || byte == UInt8(ascii: "_")
            })
        else { return false }
        switch kind {
        case .counter: return name.hasSuffix("_total")
        case .info: return name.hasSuffix("_info")
        case .gauge, .histogram:
            return ["_total", "_info", "_count", "_sum", "_bucket", "_created"].allSatisfy {
                !name.hasSuffix($0)
            }
        }
    }
}
