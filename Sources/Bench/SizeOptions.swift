import ArgumentParser
import PandoTraffic

/// Sizes that every measurement has.
struct SizeOptions: ParsableArguments {
    /// A realtime message of up to 16 384 characters is one frame (realtime §2.1); this leaves space for
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
