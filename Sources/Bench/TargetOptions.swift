import ArgumentParser
import PandoReactor

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
