import ArgumentParser

//  `pando-load`: measures a realtime database as its users would use it, and checks everything it answers.
//
//  Enters:  a server's address and a scenario.
//  Leaves:  a table, JSON, a page with plots; exit code 1 when anything was missing, doubled, stale, refused or wrong.
//  Start at Plan.swift (what a run is), then Worker.swift (a thread of it) and Coordinator.swift (its steps);
//  what
//           connections do is in Scenarios, how they speak in Clients.

@main
struct Load: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pando-load",
        abstract: "Loads a realtime database, measures it, and checks every answer.",
        discussion: """
            Each scenario keeps its data under /pando-load/RUN-ID and removes it afterwards; nothing else is touched.

              pando-load fan-out --connections 1000                      as fast as it goes (closed loop)
              pando-load writes --rate 20000 --duration 30               so many a second (open loop)
              pando-load chat --rooms 100 --rate 500 --html chat.html    with plots
              pando-load writes --in-flight 16 --peer redis=127.0.0.1:6379

            Closed loop: a connection sends its next operation when one has ended, so a slow server is asked less. It \
            shows the highest throughput. Open loop (--rate): operations fall due at fixed moments, and latency counts \
            from then, whatever the server does. It shows what users would feel at that load.

            Exit codes: 0 clean, 1 something was missing, doubled, refused or wrong, 64 usage, 74 a report could not \
            be written. Ctrl-C ends a run early and prints what there is.
            """,
        subcommands: [
            FanOut.self, Writes.self, Presence.self, Chat.self, Counter.self, Query.self, ReconnectStorm.self,
            Idle.self, REST.self, Hostile.self,
        ]
    )
}

struct FanOut: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fan-out",
        abstract: "Few write, many listen: every value to every listener, once and in order.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var effort: EffortOptions
    @OptionGroup var peers: PeerOptions

    @Option(help: "Connections that listen.")
    var connections = 1000

    @Option(help: "Places that are listened to, each with a writer of its own.")
    var topics = 1

    func run() throws {
        try checkCount(connections, "--connections")
        try checkCount(topics, "--topics", upTo: connections)
        let targets = try peers.targets()
        guard topics == 1 || !targets.contains(where: { $0.speech == .echo }) else {
            throw ValidationError("--peer echo: a broadcast has one topic")
        }
        try Runner.run(.fanOut(topics: topics), connections: connections, target, effort, peers: targets)
    }
}

struct Writes: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "writes", abstract: "Set and acknowledgement, each connection a place of its own.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var effort: EffortOptions
    @OptionGroup var peers: PeerOptions

    @Option(help: "Connections that write.")
    var connections = 64

    func run() throws {
        try checkCount(connections, "--connections")
        try Runner.run(
            .writes, connections: connections, defaultInFlight: 16, target, effort, peers: try peers.targets()
        )
    }
}

struct Presence: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "presence",
        abstract: "Members come and go (onDisconnect); watchers must see each go and come back, once.")

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
        commandName: "chat", abstract: "Many rooms: everybody sends, and hears all of their room.")

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
        commandName: "counter", abstract: "Increments, and transactions that get into each other's way.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var effort: EffortOptions

    @Option(help: "Connections that count.")
    var connections = 32

    @Option(help: "Numbers that they count up together: fewer means more contention.")
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
        // A client's transactions at one place wait for each other.
        try Runner.run(
            .counter(counters: counters, transactionShare: transactions), connections: connections, target,
            effort,
            oneAtATime: transactions > 0)
    }
}

struct Query: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "query", abstract: "A board of the best: scores change, listeners watch the highest few."
    )

    @OptionGroup var target: TargetOptions
    @OptionGroup var effort: EffortOptions

    @Option(help: "Connections that watch.")
    var connections = 100

    @Option(help: "Connections that change scores and ask.")
    var writers = 4

    @Option(help: "Items on the board.")
    var items = 1000

    @Option(help: "How many are watched.")
    var limit = 10

    @Option(help: ArgumentHelp("Operations that ask once in place of changing.", valueName: "percent"))
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
        abstract: "Everybody's connection is lost at once; how long until everybody listens again?",
        discussion: "With --rate connections are lost one by one, so many a second, in place of all at once.")

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

struct Idle: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "idle", abstract: "Connections that do nothing: what one costs the server in memory.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var effort: EffortOptions

    @Option(help: "Connections.")
    var connections = 1000

    @Flag(help: "Each listens to a place of its own.")
    var listen = false

    func run() throws {
        try checkCount(connections, "--connections")
        try Runner.run(.idle(listens: listen), connections: connections, target, effort)
    }
}

struct REST: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rest", abstract: "PUT and GET over kept HTTP connections, each a place of its own.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var effort: EffortOptions

    @Option(help: "Connections.")
    var connections = 64

    @Option(help: ArgumentHelp("Operations that read.", valueName: "percent"))
    var reads = 50

    func run() throws {
        try checkCount(connections, "--connections")
        guard (0...100).contains(reads) else { throw ValidationError("--reads must be 0 to 100") }
        try Runner.run(.rest(readShare: reads), connections: connections, target, effort, speech: .rest)
    }
}
