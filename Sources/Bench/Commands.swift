import ArgumentParser
import PandoTraffic

struct Echo: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "echo", abstract: "Round trips of messages through pando-echo.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var size: SizeOptions
    @OptionGroup var effort: EffortOptions

    @Option(help: "Path to connect to.")
    var path = "/"

    @Option(help: "Connections.")
    var connections = 64

    func validate() throws { try checkCount(connections, option: "--connections") }

    func run() throws {
        let (inFlight, bytes) = (size.inFlight ?? 1, size.bytes ?? 100)
        let plan = Measured.roundTrips(
            .echo(path: path), at: try target.address, connections: connections, inFlight: inFlight,
            bytes: bytes)
        try effort.measure("echo \(connections)×\(inFlight), \(bytes) B", plan)
    }
}

struct Broadcast: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "broadcast", abstract: "One writer; pando-echo sends each message to all listeners.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var size: SizeOptions
    @OptionGroup var effort: EffortOptions

    @Option(help: "Path to connect to.")
    var path = "/broadcast"

    @Option(help: "Connections besides the writer's.")
    var listeners = 1000

    func validate() throws { try checkCount(listeners, option: "--listeners") }

    func run() throws {
        let (inFlight, bytes) = (size.inFlight ?? 1, size.bytes ?? 200)
        let plan = Measured.fanOut(
            .echo(path: path), at: try target.address, listeners: listeners, inFlight: inFlight, bytes: bytes)
        try effort.measure("broadcast 1→\(listeners)×\(inFlight), \(bytes) B", plan)
    }
}

struct FanOut: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fan-out", abstract: "One writer; a database sends each value to all listeners.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var size: SizeOptions
    @OptionGroup var effort: EffortOptions

    @Option(help: "Database; a server with --dev creates it.")
    var namespace = "bench"

    @Option(help: "Connections that listen.")
    var listeners = 1000

    func validate() throws {
        try checkCount(listeners, option: "--listeners")
        try checkNamespace(namespace)
    }

    func run() throws {
        let (inFlight, bytes) = (size.inFlight ?? 1, size.bytes ?? 200)
        let plan = Measured.fanOut(
            .realtime(namespace: namespace), at: try target.address, listeners: listeners, inFlight: inFlight,
            bytes: bytes)
        try effort.measure("fan-out 1→\(listeners)×\(inFlight), \(bytes) B", plan)
    }
}

struct Writes: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "writes",
        abstract: "Sets and their acknowledgements; each connection writes its own path.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var size: SizeOptions
    @OptionGroup var effort: EffortOptions

    @Option(help: "Database; a server with --dev creates it.")
    var namespace = "bench"

    @Option(help: "Connections.")
    var connections = 64

    func validate() throws {
        try checkCount(connections, option: "--connections")
        try checkNamespace(namespace)
    }

    func run() throws {
        let (inFlight, bytes) = (size.inFlight ?? 16, size.bytes ?? 100)
        let plan = Measured.roundTrips(
            .realtime(namespace: namespace), at: try target.address, connections: connections,
            inFlight: inFlight, bytes: bytes)
        try effort.measure("writes \(connections)×\(inFlight), \(bytes) B", plan)
    }
}
