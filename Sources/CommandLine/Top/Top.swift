import ArgumentParser
import Foundation

/// `pando top`: what a running server does, live.
struct Top: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows live what a server does, and which paths cost most.",
        discussion: """
            The address is that of the server's admin port (--admin-listen). Connections, rates, latencies, journal, \
            memory and backups are read from /varz, the paths from /topz: which path patterns take most of the \
            databases' time, over about the last minute. Keys that look like the name of one thing among many are \
            shown as *. With --once, one screen is printed; on a terminal it is drawn again until Ctrl-C.
            """
    )

    @Argument(help: "The admin port: http://127.0.0.1:9001.")
    var url: String

    @Flag(help: "Print one screen and end.")
    var once = false

    @Option(help: ArgumentHelp("Time between two readings, 1 to 3600.", valueName: "seconds"))
    var interval = 2

    @Option(
        help: ArgumentHelp(
            "Rows of paths; as many as fit on the screen, unless given.", valueName: "count"))
    var paths: Int?

    @Option(
        help: ArgumentHelp(
            "A file with an administrator's token. Without it, the token is in PANDO_TOKEN, or in the file of PANDO_TOKEN_FILE.",
            valueName: "file"))
    var tokenFile: String?

    /// Rows of paths where the output is no screen.
    private static let standardPathCount = 20

    func validate() throws {
        guard 1...3600 ~= interval else { throw ValidationError("--interval: must be 1 to 3600 seconds") }
        if let paths, !(0...1000 ~= paths) { throw ValidationError("--paths: must be 0 to 1000") }
    }

    func run() throws {
        let client = try ServerClient(
            url, token: try AdministratorToken.read(file: tokenFile), silenceSeconds: 30)
        var previous: TopReading
        do {
            previous = try read(from: client)
        } catch let failure as ServerClient.Failure {
            printError(failure.text)
            throw failure.exitCode
        }
        while true {
            // The rates of a first screen are those of one second.
            Thread.sleep(forTimeInterval: once ? 1 : Double(interval))
            do {
                let current = try read(from: client)
                let usage = try TopUsage.read(try get("/topz", from: client))
                try show(TopScreen(url: url, previous: previous, current: current, usage: usage))
                previous = current
            } catch let failure as ServerClient.Failure {
                guard !once else {
                    printError(failure.text)
                    throw failure.exitCode
                }
                try show(failure.text)
            }
            if once { return }
        }
    }

    // MARK: Reading

    private func read(from client: ServerClient) throws -> TopReading {
        try TopReading(try get("/varz", from: client), at: Date())
    }

    private func get(_ target: String, from client: ServerClient) throws -> [UInt8] {
        var content: [UInt8] = []
        try client.get(target) { content += $0 }
        return content
    }

    // MARK: Showing

    private func show(_ screen: TopScreen) throws {
        let size = Terminal.size
        let isScreen = !once && size != nil
        let rows =
            paths
            ?? (isScreen ? max(0, (size?.rows ?? 0) - TopScreen.headerLineCount - 2) : Self.standardPathCount)
        let width = isScreen ? size?.columns ?? 0 : nil
        try print(screen.lines(pathCount: rows, width: width), isScreen: isScreen)
    }

    private func show(_ problem: String) throws {
        try print(["\(Date().formatted(.iso8601))  \(problem)"], isScreen: Terminal.size != nil)
    }

    private func print(_ lines: [String], isScreen: Bool) throws {
        // From the top left corner, each line over the one that was there, and nothing behind the last.
        let text =
            isScreen
            ? "\u{1B}[H" + lines.map { $0 + "\u{1B}[K\n" }.joined() + "\u{1B}[J"
            : lines.map { $0 + "\n" }.joined()
        try writeOutput(Array(text.utf8))
    }
}

/// The screen that standard output goes to.
private enum Terminal {
    /// Nil where it is none.
    static var size: (rows: Int, columns: Int)? {
        guard isatty(STDOUT_FILENO) == 1 else { return nil }
        var size = winsize()
        guard unsafe ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_row > 0 else {
            return (24, 80)
        }
        return (Int(size.ws_row), Int(size.ws_col))
    }
}
