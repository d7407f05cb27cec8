import ArgumentParser
import Foundation
import PandoReactor
import PandoTLS
import PandoTraffic

/// The server, the database, and the token to sign in with.
struct TargetOptions: ParsableArguments {
    static let tokenVariable = "PANDO_LOAD_TOKEN"

    @Option(help: ArgumentHelp("The server: http://host:port, or https.", valueName: "url"))
    var url = "http://127.0.0.1:9000"

    @Option(
        help: ArgumentHelp(
            "Certificates (PEM) of the issuers that are trusted with https; without it, those of the system.",
            valueName: "file"))
    var ca: String?

    @Flag(help: "Offer permessage-deflate on WebSockets, and compress messages of 1 kB and more.")
    var compress = false

    @Option(help: "The database; a server with --dev creates it.")
    var namespace = "default"

    @Option(
        help: ArgumentHelp(
            "File with a token to sign in with. Without it, the token is in PANDO_LOAD_TOKEN. There is no option for the "
                + "token itself: all users of a machine can read arguments.", valueName: "file"))
    var tokenFile: String?

    @Option(
        help: ArgumentHelp(
            "Transport of the realtime protocol: ws (WebSocket, the default) or lp (long polling, as in a page without "
                + "WebSockets). Repeatable: the transports are measured one after the other.",
            valueName: "ws|lp"))
    var transport: [Transport] = []

    func validate() throws {
        let isPlain = namespace.utf8.allSatisfy { byte in
            (0x30...0x39).contains(byte) || (0x61...0x7A).contains(byte) || byte == 0x2D
        }
        guard isPlain, !namespace.isEmpty else {
            throw ValidationError("--namespace must be of a-z, 0-9 and -")
        }
        guard Self.isURL(url) else {
            throw ValidationError("--url must begin with http:// or https:// (or ws://, wss://)")
        }
        guard ca == nil || isSecure else { throw ValidationError("--ca: only with https:// or wss://") }
        guard !transport.contains(.longPolling) || !isSecure && !compress else {
            throw ValidationError("--transport lp: not with https, and not with --compress")
        }
    }

    /// - Parameter option: The one that has the URL, for error messages.
    func target(_ wireProtocol: WireProtocol, option: String = "--url") throws -> LoadTarget {
        let authority = url.drop { $0 != "/" }.dropFirst(2).prefix { $0 != "/" }
        var target = try LoadTarget.at(
            String(authority), defaultPort: isSecure ? 443 : 80, name: "pando", wireProtocol: wireProtocol,
            option: option)
        target.compresses = compress
        if isSecure { target.security = try security(host: target.host) }
        return target
    }

    /// Whether a text begins as the URL of a server. `ws:` and `wss:` are the same server as `http:` and
    /// `https:`.
    static func isURL(_ text: String) -> Bool {
        ["http://", "ws://", "https://", "wss://"].contains { text.hasPrefix($0) }
    }

    private var isSecure: Bool { url.hasPrefix("https://") || url.hasPrefix("wss://") }

    /// - Parameter authority: `host:port`.
    private func security(host authority: String) throws -> LoadSecurity {
        let name = authority.split(separator: ":").first.map(String.init) ?? authority
        let host = authority.hasPrefix("[") ? String(authority.dropFirst().prefix { $0 != "]" }) : name
        do {
            let issuers = try ca.map { try CertificateFile.read($0) }
            return LoadSecurity(try TLSClientContext(issuers: issuers), host: host)
        } catch {
            throw ValidationError("--ca: \(error)")
        }
    }

    /// One target a transport, in the order they were asked for.
    func targets(_ wireProtocol: WireProtocol) throws -> [LoadTarget] {
        let single = try target(wireProtocol)
        guard wireProtocol == .realtime else {
            guard transport.isEmpty else {
                throw ValidationError("--transport: only for the realtime protocol")
            }
            return [single]
        }
        let wanted = transport.isEmpty ? [.webSocket] : transport
        guard Set(wanted).count == wanted.count else {
            throw ValidationError("--transport: a transport is given twice")
        }
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
        guard isPlain else {
            throw ValidationError("the token has characters that are not allowed in tokens")
        }
        return token
    }
}

extension Transport: ExpressibleByArgument {}

extension LoadTarget {
    /// The target at `host:port`.
    static func at(
        _ authority: String, defaultPort: UInt16, name: String, wireProtocol: WireProtocol, option: String
    ) throws -> LoadTarget {
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
        return LoadTarget(name: name, wireProtocol: wireProtocol, address: address, host: authority)
    }
}

/// How much is done, and how it is reported. All scenarios have these options.
struct EffortOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Operations a second over all connections, at fixed moments (open loop). Latency counts from the moment at "
                + "which an operation was due, so it includes the time that a slow server makes later operations wait. "
                + "Without --rate: closed loop, an operation begins when another has ended.",
            valueName: "per second"))
    var rate: Double?

    @Option(help: "Distances between those moments: even, or poisson (independent users).")
    var arrivals = "even"

    @Option(
        help: ArgumentHelp("Operations that one connection has under way at most.", valueName: "count"))
    var inFlight: Int?

    @Option(help: ArgumentHelp("Length of each value.", valueName: "bytes"))
    var size = 100

    @Option(help: "Seconds to measure for.")
    var duration = 10.0

    @Option(help: "Seconds before the measurement, for warm-up.")
    var warmUp = 2.0

    @Option(
        help: "Threads. With more threads than the server, the server is the bottleneck, not this program.")
    var threads = max(1, ProcessInfo.processInfo.activeProcessorCount / 2)

    @Option(
        help: ArgumentHelp(
            "When nothing moves for this time, what is missing counts as lost.", valueName: "seconds"))
    var patience = 10.0

    @Option(help: "Seed of the random choices: the same seed gives the same choices.")
    var seed: UInt64 = 1

    @Option(
        help: ArgumentHelp(
            "Process whose processor time and memory are shown (default: the one that listens there).",
            valueName: "pid"))
    var serverPid: Int32?

    @Option(
        help: ArgumentHelp(
            "Write the results as JSON; - is stdout, and then there is no table.", valueName: "file"))
    var json: String?

    @Option(help: ArgumentHelp("Write a page with plots.", valueName: "file"))
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
            "Measure the same against another server afterwards, and show the ratio: NAME=URL (another address of a "
                + "database, as that of a proxy in front of it), redis=HOST:PORT or echo=HOST:PORT (pando-echo). Repeatable.",
            valueName: "name=address"))
    var peer: [String] = []

    /// - Parameters:
    ///   - first: The options of the server that peers are compared with: those at a URL get the same but for
    ///     it.
    ///   - wireProtocol: What the peers at a URL speak. The others are for the realtime protocol.
    func targets(beside first: TargetOptions, _ wireProtocol: WireProtocol = .realtime) throws -> [LoadTarget]
    {
        try peer.map { text in
            let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
            if parts.count == 2, TargetOptions.isURL(parts[1]) {
                var other = first
                other.url = parts[1]
                var target = try other.target(wireProtocol, option: "--peer")
                target.name = parts[0]
                return target
            }
            guard parts.count == 2, wireProtocol == .realtime, let own = WireProtocol(rawValue: parts[0]),
                own == .redis || own == .echo
            else {
                let others = wireProtocol == .realtime ? ", redis=HOST:PORT or echo=HOST:PORT" : ""
                throw ValidationError("--peer: \(text) is not NAME=http://HOST:PORT (or https)\(others)")
            }
            return try LoadTarget.at(
                parts[1], defaultPort: 0, name: parts[0], wireProtocol: own, option: "--peer")
        }
    }
}

/// Checks the value of an option.
/// - Throws: `ValidationError` when it is not in 1 ... `most`.
func checkCount(_ count: Int, _ option: String, upTo most: Int = 1_000_000) throws {
    guard (1...most).contains(count) else { throw ValidationError("\(option) must be 1 to \(most)") }
}
