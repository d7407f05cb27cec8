import Glibc

/// How large `run` measures.
struct SuiteSize {
    var connections = 64
    var listeners = 1000
    var warmUpSeconds = 1.0
    var seconds = 5.0
    /// Messages of the longer traced run, per connection (round trips) or in all (one to many).
    var tracedMessages = 100

    /// So small that it may be part of every test run: it says that everything works, not how fast.
    static let smoke = SuiteSize(
        connections: 4, listeners: 20, warmUpSeconds: 0.05, seconds: 0.2, tracedMessages: 20)
}

/// One line of the table: a server and what it has to do.
struct SuiteCase {
    enum Server {
        case echo
        case memory
        case data(durability: String)
    }

    enum Work {
        case roundTrips(inFlight: Int, bytes: Int)
        case oneToMany(inFlight: Int, bytes: Int)
    }

    let name: String
    let server: Server
    let work: Work
}

/// Two cases whose quotient matters.
struct SuiteRatio {
    let name: String
    let numerator: String
    let denominator: String
    /// From the design's table of targets; nil where it has none.
    let target: Double?
}

/// What `run` measures. Where a case is the mark for another one, both put the same number of bytes on the
/// wire.
enum Suite {
    private static let valueByteCount = 200
    private static let writeByteCount = 100

    /// The text of the push that carries the value, as the database sends it.
    private static let pushByteCount =
        #"{"t":"d","d":{"a":"d","b":{"p":"bench/value","d":""}}}"#.utf8.count + valueByteCount
    private static let putByteCount = RoundTripLoad.requestByteCount(
        .realtime(namespace: "bench"), stampByteCount: writeByteCount)

    static let cases = [
        SuiteCase(name: "echo, 1 in flight", server: .echo, work: .roundTrips(inFlight: 1, bytes: 100)),
        SuiteCase(name: "echo, 16 in flight", server: .echo, work: .roundTrips(inFlight: 16, bytes: 100)),
        SuiteCase(
            name: "broadcast", server: .echo, work: .oneToMany(inFlight: 1, bytes: pushByteCount)),
        SuiteCase(
            name: "fan-out, memory", server: .memory, work: .oneToMany(inFlight: 1, bytes: valueByteCount)),
        SuiteCase(
            name: "fan-out, durable", server: .data(durability: "always"),
            work: .oneToMany(inFlight: 1, bytes: valueByteCount)),
        SuiteCase(
            name: "broadcast, 4 in flight", server: .echo,
            work: .oneToMany(inFlight: 4, bytes: pushByteCount)),
        SuiteCase(
            name: "fan-out, memory, 4 in flight", server: .memory,
            work: .oneToMany(inFlight: 4, bytes: valueByteCount)),
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
    func makeLoad(_ size: SuiteSize) -> any Load {
        let isEcho = if case .echo = server { true } else { false }
        switch work {
        case .roundTrips(let inFlight, let bytes):
            return RoundTripLoad(
                isEcho ? .bare(path: "/") : .realtime(namespace: "bench"), connections: size.connections,
                inFlight: inFlight, stampByteCount: bytes)
        case .oneToMany(let inFlight, let bytes):
            return OneToManyLoad(
                isEcho ? .bare(path: "/broadcast") : .realtime(namespace: "bench"),
                listeners: size.listeners, inFlight: inFlight, stampByteCount: bytes)
        }
    }

    /// The command that serves it; `directory` is where a database may keep its data.
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
            case .oneToMany(let inFlight, _): inFlight
            }
        return (unit * size.tracedMessages, unit)
    }
}
