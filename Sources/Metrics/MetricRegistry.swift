/// All metrics of a process. They are named when it starts, and none is added later: so every metric exists
/// from the start, and one that has not happened is 0.
package struct MetricRegistry: Sendable {
    /// By name.
    package let families: [MetricFamily]

    /// - Precondition: No two have the same name, and none has that of another with a suffix that a format
    ///   appends.
    package init(_ families: [MetricFamily]) {
        self.families = families.sorted { $0.name < $1.name }
        let exposed = families.flatMap { family in
            family.kind == .histogram
                ? ["", "_bucket", "_sum", "_count"].map { family.name + $0 } : [family.name]
        }
        precondition(Set(exposed).count == exposed.count, "two metrics have the same name")
    }

    /// All values as text.
    /// - Complexity: O(values).
    package func text(_ format: ExpositionFormat) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(Self.expectedByteCount)
        for family in families { text.append(family, format) }
        if format == .openMetrics { text.append(text: "# EOF\n") }
        return text
    }

    /// Of a server with a few threads.
    private static let expectedByteCount = 64 << 10
}
