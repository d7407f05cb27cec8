import ArgumentParser

struct Echo: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "echo", abstract: "Messages there and back, through pando-echo.")

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
        let load = RoundTripLoad(
            .bare(path: path), connections: connections, inFlight: inFlight, stampByteCount: bytes)
        try effort.measure("echo \(connections)×\(inFlight), \(bytes) B", load, at: target.address)
    }
}

struct Broadcast: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "broadcast", abstract: "One writer, every frame to all listeners, through pando-echo.")

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
        let load = OneToManyLoad(
            .bare(path: path), listeners: listeners, inFlight: inFlight, stampByteCount: bytes)
        try effort.measure("broadcast 1→\(listeners)×\(inFlight), \(bytes) B", load, at: target.address)
    }
}

struct FanOut: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fan-out", abstract: "One writer, every value to all listeners, through a database.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var size: SizeOptions
    @OptionGroup var effort: EffortOptions

    @Option(help: "Database; a server in --dev makes it.")
    var namespace = "bench"

    @Option(help: "Connections that listen.")
    var listeners = 1000

    func validate() throws {
        try checkCount(listeners, option: "--listeners")
        try checkNamespace(namespace)
    }

    func run() throws {
        let (inFlight, bytes) = (size.inFlight ?? 1, size.bytes ?? 200)
        let load = OneToManyLoad(
            .realtime(namespace: namespace), listeners: listeners, inFlight: inFlight, stampByteCount: bytes)
        try effort.measure("fan-out 1→\(listeners)×\(inFlight), \(bytes) B", load, at: target.address)
    }
}

struct Writes: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "writes", abstract: "Set and acknowledgement, each connection at a path of its own.")

    @OptionGroup var target: TargetOptions
    @OptionGroup var size: SizeOptions
    @OptionGroup var effort: EffortOptions

    @Option(help: "Database; a server in --dev makes it.")
    var namespace = "bench"

    @Option(help: "Connections.")
    var connections = 64

    func validate() throws {
        try checkCount(connections, option: "--connections")
        try checkNamespace(namespace)
    }

    func run() throws {
        let (inFlight, bytes) = (size.inFlight ?? 16, size.bytes ?? 100)
        let load = RoundTripLoad(
            .realtime(namespace: namespace), connections: connections, inFlight: inFlight,
            stampByteCount: bytes)
        try effort.measure("writes \(connections)×\(inFlight), \(bytes) B", load, at: target.address)
    }
}
