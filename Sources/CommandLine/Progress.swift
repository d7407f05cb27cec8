import Foundation

/// One line on a terminal that tells how far a long command is; silent where stderr is no terminal.
struct Progress {
    private let title: String
    private let isShown = isatty(FileHandle.standardError.fileDescriptor) == 1
    private var lastShown = Date.distantPast

    private static let barWidth = 24

    init(_ title: String) {
        self.title = title
    }

    /// Shows a share of bytes, at most ten times a second; without a total only the bytes.
    mutating func update(_ step: String, done: Int, of total: Int?) {
        guard isShown, Date().timeIntervalSince(lastShown) > 0.1 else { return }
        lastShown = Date()
        let size = ByteCountFormatter.string(fromByteCount: Int64(done), countStyle: .file)
        guard let total, total > 0 else { return show("\(step) \(size)") }
        let filled = min(Self.barWidth, Self.barWidth * done / total)
        let bar = String(repeating: "█", count: filled) + String(repeating: "·", count: Self.barWidth - filled)
        show("\(step) [\(bar)] \(size), \(100 * done / total) %")
    }

    /// Shows what goes on now.
    func step(_ step: String) {
        if isShown { show(step) }
    }

    /// Replaces the line by the result.
    func finish(_ result: String) {
        if isShown { show(result) }
        try? FileHandle.standardError.write(contentsOf: Data((isShown ? "\n" : "\(result)\n").utf8))
    }

    private func show(_ text: String) {
        try? FileHandle.standardError.write(contentsOf: Data("\r\u{1B}[K\(title): \(text)".utf8))
    }
}
