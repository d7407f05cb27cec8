import Foundation

/// One line on a terminal that tells how far a long command is, how fast, and how long it will take; silent
/// where stderr is no terminal.
struct Progress {
    private let title: String
    /// Somebody watches.
    let isShown: Bool
    private let saysResult: Bool
    private var lastShown = Date.distantPast
    /// What is being done, and since when.
    private var step = ""
    private var stepBegan = Date()

    private static let barWidth = 24

    /// - Parameter isQuiet: Nothing at all is said, not even the result.
    init(_ title: String, isQuiet: Bool = false) {
        self.title = title
        isShown = !isQuiet && isatty(FileHandle.standardError.fileDescriptor) == 1
        saysResult = !isQuiet
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

    /// Shows what goes on now.
    func step(_ step: String) {
        if isShown { show(step) }
    }

    /// Replaces the line by the result.
    func finish(_ result: String) {
        if isShown { show(result) }
        guard saysResult else { return }
        try? FileHandle.standardError.write(contentsOf: Data((isShown ? "\n" : "\(result)\n").utf8))
    }

    /// Ends the line, before something is said about what went wrong.
    func abandon() {
        if isShown { try? FileHandle.standardError.write(contentsOf: Data("\n".utf8)) }
    }

    /// Seconds since the step at hand began.
    var stepSeconds: Double { Date().timeIntervalSince(stepBegan) }

    static func text(_ byteCount: Double) -> String {
        ByteCountFormatter.string(fromByteCount: Int64(byteCount), countStyle: .file)
    }

    private func show(_ text: String) {
        try? FileHandle.standardError.write(contentsOf: Data("\r\u{1B}[K\(title): \(text)".utf8))
    }
}
