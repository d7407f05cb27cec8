import ArgumentParser
import PandoTraffic

//  `pando-load`: measures a realtime database as its users would use it, and checks every response.
//
//  Enters:  a server's address and a scenario.
//  Leaves:  a table, JSON, a page with plots; exit code 1 when anything was missing, doubled, stale, refused
//  or wrong. The load generator is the module PandoTraffic.

@main
struct Load: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pando-load",
        abstract: "Loads a realtime database, measures it, and checks every reply.",
        discussion: """
            Each scenario keeps its data under /pando-load/RUN-ID and removes it afterwards; nothing else is touched.

              pando-load fan-out --connections 1000                      as fast as it goes (closed loop)
              pando-load writes --rate 20000 --duration 30               so many a second (open loop)
              pando-load chat --rooms 100 --rate 500 --html chat.html    with plots
              pando-load writes --in-flight 16 --peer redis=127.0.0.1:6379

            Closed loop: a connection sends its next operation when one has ended, so a slow server gets fewer. It shows \
            the highest throughput. Open loop (--rate): operations are due at fixed moments, and latency counts from \
            those moments, whatever the server does. It shows the latency of users at that load.

            Exit codes: 0 clean, 1 something was missing, doubled, refused or wrong, 64 usage, 74 a report could not \
            be written. Ctrl-C ends a run early and prints the results so far.
            """,
        subcommands: [
            FanOut.self, Writes.self, Presence.self, Chat.self, Counter.self, Query.self, ReconnectStorm.self,
            Restart.self, Idle.self, REST.self, Hostile.self, BesideHeavy.self,
        ]
    )
}

struct FanOut: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fan-out",
        abstract: "Few writers, many listeners: every listener receives every value, once and in order.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var effort: EffortOptions
    @OptionGroup var peers: PeerOptions

    @Option(help: "Connections that listen.")
    var connections = 1000

    @Option(help: "Paths that are listened to, each with one writer.")
    var topics = 1

    func run() throws {
        try checkCount(connections, "--connections")
        try checkCount(topics, "--topics", upTo: connections)
        let targets = try peers.targets(beside: target)
        guard topics == 1 || !targets.contains(where: { $0.wireProtocol == .echo }) else {
            throw ValidationError("--peer echo: a broadcast has one topic")
        }
        try Runner.run(.fanOut(topics: topics), connections: connections, target, effort, peers: targets)
    }
}

struct Writes: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "writes",
        abstract: "Sets and their acknowledgements; each connection writes its own path.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var effort: EffortOptions
    @OptionGroup var peers: PeerOptions

    @Option(help: "Connections that write.")
    var connections = 64

    func run() throws {
        try checkCount(connections, "--connections")
        try Runner.run(
            .writes, connections: connections, defaultInFlight: 16, target, effort,
            peers: try peers.targets(beside: target))
    }
}

struct Presence: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "presence",
        abstract: "Members disconnect (onDisconnect) and come back; watchers must see each of it, once.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var effort: EffortOptions

    @Option(help: "Members.")
    var connections = 200

    @Option(help: "Connections that watch them.")
    var watchers = 2

    func run() throws {
        try checkCount(connections, "--connections")
        try checkCount(watchers, "--watchers", upTo: 10_000)
        try Runner.run(
            .presence(watchers: watchers), connections: connections, target, effort, oneAtATime: true)
    }
}

struct Chat: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "chat",
        abstract: "Many rooms: each connection sends, and receives all messages of its room.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var effort: EffortOptions

    @Option(help: "Connections, spread over the rooms.")
    var connections = 1000

    @Option(help: "Rooms.")
    var rooms = 100

    func run() throws {
        try checkCount(connections, "--connections")
        try checkCount(rooms, "--rooms", upTo: connections)
        try Runner.run(.chat(rooms: rooms), connections: connections, target, effort)
    }
}

struct Counter: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "counter", abstract: "Increments, and transactions that conflict with each other.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var effort: EffortOptions

    @Option(help: "Connections that count.")
    var connections = 32

    @Option(help: "Numbers that are counted up: fewer numbers, more conflicts.")
    var counters = 4

    @Option(
        help: ArgumentHelp("Connections that use transactions; the others increment.", valueName: "percent"))
    var transactions = 50

    func run() throws {
        try checkCount(connections, "--connections")
        try checkCount(counters, "--counters", upTo: 10_000)
        guard (0...100).contains(transactions) else {
            throw ValidationError("--transactions must be 0 to 100")
        }
        // Transactions of one client at one path run one after another.
        try Runner.run(
            .counter(counters: counters, transactionShare: transactions), connections: connections, target,
            effort,
            oneAtATime: transactions > 0)
    }
}

struct Query: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "query", abstract: "A leaderboard: scores change, listeners watch the highest few."
    )

    @OptionGroup var target: TargetOptions
    @OptionGroup var effort: EffortOptions

    @Option(help: "Connections that watch.")
    var connections = 100

    @Option(help: "Connections that change scores and query.")
    var writers = 4

    @Option(help: "Items on the leaderboard.")
    var items = 1000

    @Option(help: "How many items each listener watches.")
    var limit = 10

    @Option(
        help: ArgumentHelp("Share of operations that query once instead of changing.", valueName: "percent"))
    var reads = 20

    func run() throws {
        try checkCount(connections, "--connections")
        try checkCount(items, "--items", upTo: 100_000)
        try checkCount(writers, "--writers", upTo: items)
        try checkCount(limit, "--limit", upTo: items)
        guard (0...100).contains(reads) else { throw ValidationError("--reads must be 0 to 100") }
        let work = Work.query(items: items, limit: limit, writers: writers, readShare: reads)
        try Runner.run(work, connections: connections, target, effort)
    }
}

struct ReconnectStorm: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reconnect-storm",
        abstract: "All connections are lost at once: how long until all listen again?",
        discussion: "With --rate, connections are lost one by one, that many a second.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var effort: EffortOptions

    @Option(help: "Connections that listen.")
    var connections = 500

    @Option(help: ArgumentHelp("Time between two storms.", valueName: "seconds"))
    var every = 5.0

    func run() throws {
        try checkCount(connections, "--connections")
        guard (0.01...3600).contains(every) else { throw ValidationError("--every must be 0.01 to 3600") }
        let pause = Int(every * 1e9)
        try Runner.run(
            .reconnectStorm(everyNanoseconds: pause), connections: connections, target, effort,
            burst: .bursts(of: connections, everyNanoseconds: pause), oneAtATime: true)
    }
}

struct Restart: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restart",
        abstract: "Clients listen, and come back as SDKs do when the server is started again.",
        discussion: """
            Start the server again during the run, at the same address: this program does not. "without service" is the \
            time from the loss of a connection until its client listens again; deliveries are values that were sent once \
            more to clients that had them, each of --size bytes.

              pando-load restart --connections 10000 --duration 60 &     then, after 10 s:
              systemctl restart pando
            """)

    @OptionGroup var target: TargetOptions
    @OptionGroup var effort: EffortOptions

    @Option(help: "Connections that listen.")
    var connections = 1000

    func run() throws {
        try checkCount(connections, "--connections")
        guard target.transport.allSatisfy({ $0 == .webSocket }) else {
            throw ValidationError("--transport: only ws")
        }
        try Runner.run(.restart, connections: connections, target, effort)
    }
}

struct Idle: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "idle", abstract: "Connections that do nothing: the memory that one costs the server.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var effort: EffortOptions

    @Option(help: "Connections.")
    var connections = 1000

    @Flag(help: "Each connection listens to its own path.")
    var listen = false

    func run() throws {
        try checkCount(connections, "--connections")
        try Runner.run(.idle(listens: listen), connections: connections, target, effort)
    }
}

struct REST: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rest", abstract: "PUT and GET over persistent HTTP connections, each at its own path.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var effort: EffortOptions
    @OptionGroup var peers: PeerOptions

    @Option(help: "Connections.")
    var connections = 64

    @Option(help: ArgumentHelp("Share of operations that read.", valueName: "percent"))
    var reads = 50

    func run() throws {
        try checkCount(connections, "--connections")
        guard (0...100).contains(reads) else { throw ValidationError("--reads must be 0 to 100") }
        try Runner.run(
            .rest(readShare: reads), connections: connections, target, effort,
            peers: try peers.targets(beside: target, .rest), wireProtocol: .rest)
    }
}
