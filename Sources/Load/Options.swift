import ArgumentParser
import Foundation
import PandoReactor
import PandoTraffic

/// Where the server is, and who we are to it.
struct TargetOptions: ParsableArguments {
    static let tokenVariable = "PANDO_LOAD_TOKEN"

    @Option(help: ArgumentHelp("The server.", valueName: "http://host:port"))
    var url = "http://127.0.0.1:9000"

    @Option(help: "The database; a server in --dev makes it.")
    var namespace = "default"

    @Option(
        help: ArgumentHelp(
            "File with a token to sign in with; or the environment's PANDO_LOAD_TOKEN. Never an argument: those are "
                + "seen by everybody on the machine.", valueName: "file"))
    var tokenFile: String?

    @Option(
        help: ArgumentHelp(
            "What the realtime protocol travels over: ws (WebSocket, the default) or lp (long polling, as in a page that "
                + "has no WebSocket). May be given more than once: each is measured, one after the other.",
            valueName: "ws|lp"))
    var transport: [Transport] = []

    func validate() throws {
        let isPlain = namespace.utf8.allSatisfy { byte in
            (0x30...0x39).contains(byte) || (0x61...0x7A).contains(byte) || byte == 0x2D
        }
        guard isPlain, !namespace.isEmpty else {
            throw ValidationError("--namespace must be of a-z, 0-9 and -")
        }
        guard url.hasPrefix("http://") else { throw ValidationError("--url must begin with http://") }
    }

    func target(_ speech: WireProtocol) throws -> Target {
        let authority = url.dropFirst("http://".count).prefix { $0 != "/" }
        return try Target.at(
            String(authority), defaultPort: 80, name: "pando", speech: speech, option: "--url")
    }

    /// One target a transport, in the order they were asked for.
    func targets(_ speech: WireProtocol) throws -> [Target] {
        let single = try target(speech)
        guard speech == .realtime else {
            guard transport.isEmpty else {
                throw ValidationError("--transport: only of the realtime protocol")
            }
            return [single]
        }
        let wanted = transport.isEmpty ? [.webSocket] : transport
        guard Set(wanted).count == wanted.count else { throw ValidationError("--transport: each once") }
        return wanted.map { transport in
            var one = single
            one.transport = transport
            if wanted != [.webSocket] { one.name += " \(transport.rawValue)" }
            return one
        }
    }

    func token() throws -> String? {
        var text = ProcessInfo.processInfo.environment[Self.tokenVariable]
        if let tokenFile {
            guard let content = readWholeFile(tokenFile) else {
                throw ValidationError("--token-file: \(tokenFile) cannot be read")
            }
            text = content
        }
        guard let token = text?.trimmingCharacters(in: .whitespacesAndNewlines), !token.isEmpty else {
            return nil
        }
        // It goes into JSON and a header field as it is.
        let isPlain = token.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }
        guard isPlain else { throw ValidationError("the token has characters that no token has") }
        return token
    }
}

extension Transport: ExpressibleByArgument {}

extension Target {
    /// The target at `host:port`.
    static func at(
        _ authority: String, defaultPort: UInt16, name: String, speech: WireProtocol, option: String
    ) throws -> Target {
        var (host, port) = (authority, defaultPort)
        if let colon = authority.lastIndex(of: ":"), !authority.hasSuffix("]") {
            guard let number = UInt16(authority[authority.index(after: colon)...]) else {
                throw ValidationError("\(option): \(authority) has no port")
            }
            (host, port) = (String(authority[..<colon]), number)
        }
        let plain = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        guard let address = try? SocketAddress.resolve(host: plain, port: port).first else {
            throw ValidationError("\(option): \(host) has no address")
        }
        return Target(name: name, speech: speech, address: address, host: authority)
    }
}

/// How much is done, and how it is told. Every scenario has these.
struct EffortOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Operations a second over all connections, at fixed moments (open loop): latency counts from the moment an "
                + "operation was due, so a server that stalls is seen to. Without: closed loop, the next operation "
                + "begins when one has ended.", valueName: "per second"))
    var rate: Double?

    @Option(help: "Spacing of those moments: even, or poisson (independent users).")
    var arrivals = "even"

    @Option(
        help: ArgumentHelp("Operations that one connection has under way at the most.", valueName: "count"))
    var inFlight: Int?

    @Option(help: ArgumentHelp("Length of each value.", valueName: "bytes"))
    var size = 100

    @Option(help: "Seconds to measure for.")
    var duration = 10.0

    @Option(help: "Seconds that pass before.")
    var warmUp = 2.0

    @Option(help: "Threads; more than the server's make sure that it, not the harness, is measured.")
    var threads = max(1, ProcessInfo.processInfo.activeProcessorCount / 2)

    @Option(
        help: ArgumentHelp(
            "When nothing moves for so long, what is missing counts as lost.", valueName: "seconds"))
    var patience = 10.0

    @Option(help: "Makes random choices the same in every run.")
    var seed: UInt64 = 1

    @Option(
        help: ArgumentHelp(
            "Process whose processor time and memory are shown (default: the one that listens there).",
            valueName: "pid"))
    var serverPid: Int32?

    @Option(
        help: ArgumentHelp(
            "Writes everything there as JSON; - is stdout, in place of the table.", valueName: "file"))
    var json: String?

    @Option(help: ArgumentHelp("Writes a page with plots there.", valueName: "file"))
    var html: String?

    func validate() throws {
        var problems: [String] = []
        if let rate, !(0.01...10_000_000).contains(rate) {
            problems.append("--rate must be 0.01 to 10000000")
        }
        if !["even", "poisson"].contains(arrivals) { problems.append("--arrivals must be even or poisson") }
        if !(1...65_536).contains(inFlight ?? 1) { problems.append("--in-flight must be 1 to 65536") }
        if !(Stamp.shortestTimedByteCount...1_000_000).contains(size) {
            problems.append(
                "--size must be \(Stamp.shortestTimedByteCount) (two numbers that are checked) to 1000000")
        }
        if !(0.01...86_400).contains(duration) { problems.append("--duration must be 0.01 to 86400") }
        if !(0...3600).contains(warmUp) { problems.append("--warm-up must be 0 to 3600") }
        if !(1...64).contains(threads) { problems.append("--threads must be 1 to 64") }
        if !(0.1...600).contains(patience) { problems.append("--patience must be 0.1 to 600") }
        guard problems.isEmpty else { throw ValidationError(problems.joined(separator: "\n")) }
    }

    var pattern: Arrivals.Pattern? {
        rate.map { arrivals == "even" ? .even(perSecond: $0) : .poisson(perSecond: $0) }
    }
}

struct PeerOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Measures the same against another server afterwards and shows the ratio: redis=HOST:PORT or "
                + "echo=HOST:PORT (pando-echo). May be given more than once.", valueName: "kind=address"))
    var peer: [String] = []

    func targets() throws -> [Target] {
        try peer.map { text in
            let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
            guard parts.count == 2, let speech = WireProtocol(rawValue: parts[0]),
                speech == .redis || speech == .echo
            else {
                throw ValidationError("--peer: \(text) is neither redis=HOST:PORT nor echo=HOST:PORT")
            }
            return try Target.at(parts[1], defaultPort: 0, name: parts[0], speech: speech, option: "--peer")
        }
    }
}

/// `count` in its range, or a problem in the words of the option.
func checkCount(_ count: Int, _ option: String, upTo most: Int = 1_000_000) throws {
    guard (1...most).contains(count) else { throw ValidationError("\(option) must be 1 to \(most)") }
}
