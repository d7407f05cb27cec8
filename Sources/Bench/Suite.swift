import PandoReactor
import PandoTraffic

/// The sizes of the measurements of `run`.
struct SuiteSize {
    var connections = 64
    var listeners = 1000
    var warmUpSeconds = 1.0
    var seconds = 5.0
    /// Messages of the longer traced run, per connection (round trips) or in all (fan-out).
    var tracedMessages = 100

    /// Small enough for every test run: shows that everything works, not how fast.
    static let smoke = SuiteSize(
        connections: 4, listeners: 20, warmUpSeconds: 0.05, seconds: 0.2, tracedMessages: 20)
}

/// One line of the table: a server and its work.
struct SuiteCase {
    enum Server {
        case echo
        case memory
        case data(durability: String)
    }

    enum Work {
        case roundTrips(inFlight: Int, bytes: Int)
        case fanOut(inFlight: Int, bytes: Int)
    }

    let name: String
    let server: Server
    let work: Work
}

/// The ratio of two cases.
struct SuiteRatio {
    let name: String
    let numerator: String
    let denominator: String
    /// The target in `public/docs/performance.md`; nil where it has none.
    let target: Double?
}

/// The measurements of `run`. Two cases of a ratio put the same number of bytes on the wire.
enum Suite {
    private static let valueByteCount = 200
    private static let writeByteCount = 100

    /// The text of the push that carries the value, as the database sends it.
    private static let pushByteCount =
        #"{"t":"d","d":{"a":"d","b":{"p":"bench/topics/0","d":""}}}"#.utf8.count + valueByteCount
    /// The text of a put, its number of six digits.
    private static let putByteCount =
        #"{"t":"d","d":{"r":100000,"a":"p","b":{"p":"/bench/writers/10","d":""}}}"#.utf8.count
        + writeByteCount

    static let cases = [
        SuiteCase(name: "echo, 1 in flight", server: .echo, work: .roundTrips(inFlight: 1, bytes: 100)),
        SuiteCase(name: "echo, 16 in flight", server: .echo, work: .roundTrips(inFlight: 16, bytes: 100)),
        SuiteCase(
            name: "broadcast", server: .echo, work: .fanOut(inFlight: 1, bytes: pushByteCount)),
        SuiteCase(
            name: "fan-out, memory", server: .memory, work: .fanOut(inFlight: 1, bytes: valueByteCount)),
        SuiteCase(
            name: "fan-out, durable", server: .data(durability: "always"),
            work: .fanOut(inFlight: 1, bytes: valueByteCount)),
        SuiteCase(
            name: "broadcast, 4 in flight", server: .echo,
            work: .fanOut(inFlight: 4, bytes: pushByteCount)),
        SuiteCase(
            name: "fan-out, memory, 4 in flight", server: .memory,
            work: .fanOut(inFlight: 4, bytes: valueByteCount)),
        SuiteCase(
            name: "echo of puts", server: .echo, work: .roundTrips(inFlight: 16, bytes: putByteCount)),
        SuiteCase(
            name: "writes, none", server: .data(durability: "none"),
            work: .roundTrips(inFlight: 16, bytes: writeByteCount)),
        SuiteCase(
            name: "writes, always", server: .data(durability: "always"),
            work: .roundTrips(inFlight: 16, bytes: writeByteCount)),
    ]

    static let ratios = [
        SuiteRatio(
            name: "fan-out / broadcast", numerator: "fan-out, memory", denominator: "broadcast", target: 0.9),
        SuiteRatio(
            name: "durable fan-out / broadcast", numerator: "fan-out, durable", denominator: "broadcast",
            target: 0.9),
        SuiteRatio(
            name: "the same, 4 in flight, in memory", numerator: "fan-out, memory, 4 in flight",
            denominator: "broadcast, 4 in flight", target: nil),
        SuiteRatio(
            name: "writes, none / echo of puts", numerator: "writes, none", denominator: "echo of puts",
            target: 0.5),
        SuiteRatio(
            name: "writes, always / none", numerator: "writes, always", denominator: "writes, none",
            target: nil),
    ]
}

extension SuiteCase {
    /// The plan that measures this case at a server.
    func plan(_ size: SuiteSize, at address: SocketAddress) -> Plan {
        let isEcho = if case .echo = server { true } else { false }
        switch work {
        case .roundTrips(let inFlight, let bytes):
            return Measured.roundTrips(
                isEcho ? .echo(path: "/") : .realtime(namespace: "bench"), at: address,
                connections: size.connections, inFlight: inFlight, bytes: bytes)
        case .fanOut(let inFlight, let bytes):
            return Measured.fanOut(
                isEcho ? .echo(path: "/broadcast") : .realtime(namespace: "bench"), at: address,
                listeners: size.listeners, inFlight: inFlight, bytes: bytes)
        }
    }

    /// The command that starts the server; `directory` is for the data of a database.
    func command(binaries: String, directory: String) -> [String] {
        switch server {
        case .echo: ["\(binaries)/pando-echo", "--port", "0"]
        case .memory: ["\(binaries)/pando", "serve", "--port", "0", "--dev", "--memory"]
        case .data(let durability):
            [
                "\(binaries)/pando", "serve", "--port", "0", "--dev", "--data", "\(directory)/data",
                "--durability", durability,
            ]
        }
    }

    /// Messages of the longer and the shorter traced run.
    func tracedMessages(_ size: SuiteSize) -> (longer: Int, shorter: Int) {
        let unit =
            switch work {
            case .roundTrips(let inFlight, _): size.connections * inFlight
            case .fanOut(let inFlight, _): inFlight
            }
        return (unit * size.tracedMessages, unit)
    }
}
