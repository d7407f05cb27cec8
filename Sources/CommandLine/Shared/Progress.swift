import Foundation
import PandoLog

/// One line on a terminal with the progress of a long command, its rate and the time left; nothing where
/// stderr is not a terminal.
struct Progress {
    private let title: String
    /// Whether stderr is a terminal and the line is wanted.
    let isShown: Bool
    private let printsResult: Bool
    private var lastShown = Date.distantPast
    /// The current step, and when it began.
    private var step = ""
    private var stepBegan = Date()

    private static let barWidth = 24

    /// - Parameter isQuiet: Prints nothing, not even the result.
    init(_ title: String, isQuiet: Bool = false) {
        self.title = title
        isShown = !isQuiet && isatty(FileHandle.standardError.fileDescriptor) == 1
        printsResult = !isQuiet
    }

    /// Shows a share of bytes, at most ten times a second; without a total only the bytes.
    mutating func update(_ step: String, done: Int, of total: Int?) {
        let now = Date()
        if step != self.step { (self.step, stepBegan) = (step, now) }
        guard isShown, now.timeIntervalSince(lastShown) > 0.1 else { return }
        lastShown = now
        let seconds = max(0.1, now.timeIntervalSince(stepBegan))
        let rate = Double(done) / seconds
        let size = "\(Self.text(Double(done))), \(Self.text(rate))/s"
        guard let total, total > 0 else { return show("\(step) \(size)") }
        let filled = min(Self.barWidth, Self.barWidth * done / total)
        let bar =
            String(repeating: "█", count: filled) + String(repeating: "·", count: Self.barWidth - filled)
        let left = rate > 0 ? Int(Double(max(0, total - done)) / rate) + 1 : 0
        show("\(step) [\(bar)] \(100 * done / total) %, \(size), \(left) s left")
    }

    /// Shows the name of the current step.
    func step(_ step: String) {
        if isShown { show(step) }
    }

    /// Replaces the line by the result.
    func finish(_ result: String) {
        if isShown { show(result) }
        guard printsResult else { return }
        StandardError().write(isShown ? "\n" : "\(result)\n")
    }

    /// Ends the line, before an error message.
    func abandon() {
        if isShown { try? FileHandle.standardError.write(contentsOf: Data("\n".utf8)) }
    }

    static func text(_ byteCount: Double) -> String {
        ByteCountFormatter.string(fromByteCount: Int64(byteCount), countStyle: .file)
    }

    private func show(_ text: String) {
        let line = Data("\r\u{1B}[K".utf8) + LogLine.bytes("\(title): \(text)")
        try? FileHandle.standardError.write(contentsOf: line)
    }
}
