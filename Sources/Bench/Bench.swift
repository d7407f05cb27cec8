import ArgumentParser
import PandoReactor
import PandoTraffic

//  `pando-bench`: measures servers over real sockets with the load generator of `PandoTraffic`.
//
//  Enters:  a server that listens (`echo`, `broadcast`: pando-echo; `fan-out`, `writes`: pando), or for `run` the
//           folder with both. `micro` needs no server: it calls pure modules; nor does `machine`.
//  Leaves:  rates, latencies, processor time; exit 1 if a message was missing, doubled, out of order or changed.
//  Start at Measured.swift (what is measured), then Suite.swift and Run.swift.
//
//  Client and server share the machine's processors, so absolute numbers say as much about the client as
//  about the server. Compare numbers of one run: that is what `run` prints. The client's own processor time
//  is shown: when it is near 100 %, its one thread is the limit.

@main
struct Bench: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pando-bench",
        abstract: "Measures pando and pando-echo over real sockets.",
        subcommands: [
            Echo.self, Broadcast.self, FanOut.self, Writes.self, Run.self, Micro.self, Machine.self,
        ]
    )
}

struct TargetOptions: ParsableArguments {
    @Option(help: "Where the server listens: a numeric address.")
    var host = "127.0.0.1"

    @Option(help: "Its port.")
    var port: UInt16

    var address: SocketAddress {
        get throws {
            guard let address = SocketAddress(host, port: port) else {
                throw ValidationError("--host: \(host) is no numeric address")
            }
            return address
        }
    }
}

struct EffortOptions: ParsableArguments {
    @Option(help: "Send exactly so many messages, without a warm-up. Default: measure for a time.")
    var messages: Int?

    @Option(help: "Seconds to measure for.")
    var seconds = 5.0

    @Option(help: "Seconds that pass before measuring.")
    var warmUp = 1.0

    @Option(help: ArgumentHelp("Process whose processor time is shown.", valueName: "pid"))
    var serverPid: Int32?

    @Flag(help: "Print one line of JSON.")
    var json = false

    func validate() throws {
        guard (messages ?? 0) >= 0 else { throw ValidationError("--messages must not be negative") }
        guard (0.01...86_400).contains(seconds) else {
            throw ValidationError("--seconds must be 0.01 to 86400")
        }
        guard (0...3600).contains(warmUp) else { throw ValidationError("--warm-up must be 0 to 3600") }
    }

    /// Measures and prints.
    /// - Throws: Exit code 1 if anything was wrong.
    func measure(_ name: String, _ plan: Plan) throws {
        raiseDescriptorLimit()
        Signals.block()
        let extent = messages.map { Plan.Extent.messages($0) } ?? .time(warmUp: warmUp, measured: seconds)
        let outcome = try plan.measuring(extent, serverProcess: serverPid).run(showsProgress: false)
        let report = Report(name: name, outcome: outcome)
        print(json ? report.json : report.text)
        guard report.problems.isEmpty else { throw ExitCode.failure }
    }
}

/// Sizes that every measurement has.
struct SizeOptions: ParsableArguments {
    /// A realtime message of up to 16 384 characters is one frame (realtime §2.1); this leaves room for
    /// the members around the value.
    static let byteLimit = 16_000

    @Option(
        help: ArgumentHelp(
            "Messages that a sender keeps under way (default: 1; writes: 16).", valueName: "count"))
    var inFlight: Int?

    @Option(
        help: ArgumentHelp(
            "Length of the payload or value (default: 100; broadcast, fan-out: 200).", valueName: "count"))
    var bytes: Int?

    func validate() throws {
        guard (1...65_536).contains(inFlight ?? 1) else {
            throw ValidationError("--in-flight must be 1 to 65536")
        }
        guard (Stamp.shortestTimedByteCount...Self.byteLimit).contains(bytes ?? Stamp.shortestTimedByteCount)
        else {
            throw ValidationError("--bytes must be \(Stamp.shortestTimedByteCount) to \(Self.byteLimit)")
        }
    }
}

/// `count` of `what`, checked.
func checkCount(_ count: Int, option: String) throws {
    guard (1...100_000).contains(count) else { throw ValidationError("\(option) must be 1 to 100000") }
}

func checkNamespace(_ namespace: String) throws {
    let isPlain = namespace.utf8.allSatisfy { byte in
        (0x30...0x39).contains(byte) || (0x61...0x7A).contains(byte) || byte == 0x2D
    }
    guard isPlain, !namespace.isEmpty else {
        throw ValidationError("--namespace must be of a-z, 0-9 and -")
    }
}
