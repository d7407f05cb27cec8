/// What happens in a run, as lines.
package struct EventLog {
    package enum Mode: Sendable {
        case print, forget
        /// Only ``EventLog/digest``.
        case digest
        /// The last so many lines.
        case keep(Int)
    }

    private let mode: Mode
    package private(set) var lines: [String] = []
    /// Of all lines, in their order (FNV-1a).
    package private(set) var digest: UInt64 = 0xCBF2_9CE4_8422_2325

    init(_ mode: Mode) { self.mode = mode }

    mutating func note(_ event: @autoclosure () -> String, at step: Int) {
        switch mode {
        case .forget: return
        case .print: print("\(step): \(event())")
        case .digest:
            for byte in "\(step): \(event())\n".utf8 { digest = (digest ^ UInt64(byte)) &* 0x100_0000_01B3 }
        case .keep(let count):
            if lines.count == 2 * count { lines.removeFirst(count) }
            lines.append("\(step): \(event())")
        }
    }
}
