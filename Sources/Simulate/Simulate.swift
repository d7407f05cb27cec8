import ArgumentParser
import Glibc
import PandoSimulation

//  `simulate`: runs seeds of the module Simulation.
//
//  Enters:  a seed.   Leaves:  0, or 1 and the seed, the step and the last events of a broken promise.

@main
struct Simulate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate",
        abstract:
            "Runs the server on a disk, a network and a clock that a seed decides, and checks its promises.",
        discussion:
            "Each seed simulates one data directory: clients on slow and broken connections, crashes, power cuts, full and corrupting disks."
    )

    @Option(help: "The first seed.")
    var seed: UInt64 = 1

    @Option(help: "How many seeds to run, one after the other. Default: one, or as many as --seconds allows.")
    var count: UInt64?

    @Option(help: "Begin no new seed after so many seconds.")
    var seconds: Double?

    @Flag(help: "Let sessions flood in every seed, not only in some.")
    var floods = false

    @Flag(help: "Print every event as it happens.")
    var trace = false

    func validate() throws {
        guard seconds ?? 1 > 0 else { throw ValidationError("--seconds must be positive") }
        guard count ?? 1 > 0 else { throw ValidationError("--count must be positive") }
    }

    /// Events that are shown of a seed that failed.
    private static let shownEventCount = 60

    func run() throws {
        Self.fixHashing()
        let began = ContinuousClock.now
        var (ran, totals) = (UInt64(0), Totals())
        let limit = count ?? (seconds == nil ? 1 : UInt64.max)
        while ran < limit, seconds.map({ ContinuousClock.now - began < .seconds($0) }) ?? true {
            let seed = seed &+ ran
            reportTraps(seed, replay)
            let isRepeated = ran % Self.repeatedEvery == 0 && !trace
            let simulation = Simulation(
                seed: seed, log: trace ? .print : isRepeated ? .digest : .forget, floods: floods ? true : nil)
            do {
                try simulation.run()
                if isRepeated { try expect(simulation.log.digest, of: seed) }
            } catch {
                try explain(seed, error)
            }
            totals += simulation.totals
            ran += 1
        }
        let elapsed = (ContinuousClock.now - began) / .seconds(1)
        print("\(totals)")
        if !floods, ran >= Self.seedCountThatMeetsAll, let untried = totals.untried {
            print("\(ran) seeds have met no \(untried): the simulation is not what it should be")
            throw ExitCode(1)
        }
        print(
            "\(ran) seeds from \(seed) passed in \(tenths(elapsed)) s, \(tenths(Double(ran) / elapsed)) a second"
        )
    }

    /// So many seeds meet everything, tens of times at least.
    private static let seedCountThatMeetsAll: UInt64 = 1000

    /// Of so many seeds one is run twice: the same seed must give the same run.
    private static let repeatedEvery: UInt64 = 50

    private func expect(_ digest: UInt64, of seed: UInt64) throws {
        let again = Simulation(seed: seed, log: .digest, floods: floods ? true : nil)
        try again.run()
        guard again.log.digest == digest else {
            throw BrokenPromise(description: "run again, it is another run")
        }
    }

    /// Runs the seed again, to tell what led to the failure.
    private func explain(_ seed: UInt64, _ error: any Error) throws -> Never {
        let again = Simulation(seed: seed, log: .keep(Self.shownEventCount), floods: floods ? true : nil)
        var failure = error
        do {
            try again.run()
            print("the failure did not come again: the simulation is not deterministic")
        } catch { failure = error }
        if !trace { for event in again.log.lines { print(event) } }
        print("seed \(seed) failed at step \(again.step): \(failure)")
        print("replay: \(replay(seed))")
        throw ExitCode(1)
    }

    private func replay(_ seed: UInt64) -> String {
        "simulate --seed \(seed) --trace" + (floods ? " --floods" : "")
    }
}

extension Simulate {
    /// Starts the process again with hash tables whose order is the same in every process: a seed must give
    /// one run, also where the order of two messages to different clients is that of a table.
    private static func fixHashing() {
        let name = "SWIFT_DETERMINISTIC_HASHING"
        guard unsafe getenv(name) == nil else { return }
        _ = unsafe setenv(name, "1", 1)
        // The C library's strings live until the process is replaced.
        var arguments = unsafe CommandLine.arguments.map { unsafe strdup($0) }
        unsafe arguments.append(nil)
        // Comes back only when it fails: then a failure may look different the second time.
        _ = unsafe execv("/proc/self/exe", arguments)
    }
}

private func tenths(_ number: Double) -> String {
    let tenths = Int64((number * 10).rounded())
    return "\(tenths / 10).\(tenths % 10)"
}

/// The line that a trap prints: nothing may be allocated then.
nonisolated(unsafe) private var trapMessage: [UInt8] = []

/// A trap of the code under test ends the process: the seed is printed.
private func reportTraps(_ seed: UInt64, _ replay: (UInt64) -> String) {
    unsafe trapMessage = Array("seed \(seed) trapped; replay: \(replay(seed))\n".utf8)
    for number in [SIGILL, SIGTRAP, SIGSEGV, SIGBUS, SIGFPE, SIGABRT] {
        signal(number) { _ in
            unsafe trapMessage.withUnsafeBytes { _ = unsafe write(2, $0.baseAddress, $0.count) }
            _exit(1)
        }
    }
}
