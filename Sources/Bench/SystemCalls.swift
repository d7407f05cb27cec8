//  strace -c prints when the traced program ends:
//
//      % time     seconds  usecs/call     calls    errors syscall
//      ------ ----------- ----------- --------- --------- ----------------
//       61.29    0.118243          11     10240           sendto
//       …
//      100.00    0.192913           9     20876        41 total

/// How often a traced process made each system call.
struct SystemCalls {
    private var counts: [String: Int] = [:]

    /// Reads the table of `strace -c`.
    init(table: String) {
        for line in table.split(separator: "\n") {
            let fields = line.split(separator: " ")
            guard fields.count >= 5, let name = fields.last, name != "total", let count = Int(fields[3])
            else { continue }
            counts[String(name), default: 0] += count
        }
    }

    var isEmpty: Bool { counts.isEmpty }

    /// Calls per message, the most frequent first: the difference of two runs, divided by the difference of
    /// their messages. So start, connections and end are not counted.
    static func perMessage(
        longer: SystemCalls, shorter: SystemCalls, messages: Int
    ) -> [(name: String, calls: Double)] {
        longer.counts
            .map { name, count in
                (name, Double(count - shorter.counts[name, default: 0]) / Double(max(1, messages)))
            }
            // Noise: one or two calls.
            .filter { $0.1 >= 0.001 }
            .sorted { ($1.1, $0.0) < ($0.1, $1.0) }
    }
}
