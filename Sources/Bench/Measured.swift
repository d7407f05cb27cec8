import PandoReactor
import PandoTraffic

/// What is measured, in the terms of the commands: a plan for the load generator of `PandoTraffic`. The plans
/// have one thread: compare its processor time, which is shown, with 100 %.
enum Measured {
    /// The server that is loaded.
    enum Server: Equatable {
        /// `pando-echo`; the path is that of its WebSockets.
        case echo(path: String)
        /// A database.
        case realtime(namespace: String)
    }

    /// The path of the data of all measurements.
    static let root = "bench"

    /// Every connection keeps `inFlight` requests under way, and waits for each response: echoes, or writes,
    /// each connection to a path of its own.
    static func roundTrips(
        _ server: Server, at address: SocketAddress, connections: Int, inFlight: Int, bytes: Int
    ) -> Plan {
        var plan = plan(.writes, server, at: address)
        (plan.connections, plan.inFlight, plan.size) = (connections, inFlight, bytes)
        return plan
    }

    /// One connection writes; all listeners must receive every value, once and in order. A message is over
    /// when the writer has its response and all listeners have the value.
    static func fanOut(
        _ server: Server, at address: SocketAddress, listeners: Int, inFlight: Int, bytes: Int
    ) -> Plan {
        var plan = plan(.fanOut(topics: 1), server, at: address)
        (plan.connections, plan.inFlight, plan.size) = (listeners, inFlight, bytes)
        plan.timesWholeFanOut = true
        return plan
    }

    private static func plan(_ work: Work, _ server: Server, at address: SocketAddress) -> Plan {
        let host = address.description
        switch server {
        case .echo(let path):
            var target = LoadTarget(name: "echo", wireProtocol: .echo, address: address, host: host)
            (target.echoMessage, target.echoPath) = (.stamp, path)
            return Plan(work, at: target, root: root)
        case .realtime(let namespace):
            let target = LoadTarget(name: "pando", wireProtocol: .realtime, address: address, host: host)
            var plan = Plan(work, at: target, root: root)
            plan.namespace = namespace
            return plan
        }
    }
}

extension Plan {
    /// How long a measurement goes on.
    enum Extent {
        /// Exactly this number of messages, all of them measured.
        case messages(Int)
        /// First a warm-up that is not measured. Seconds.
        case time(warmUp: Double, measured: Double)
    }

    /// The plan with that extent.
    /// - Parameter serverProcess: The process whose processor time is measured beside this one's.
    func measuring(_ extent: Extent, serverProcess: Int32? = nil) -> Plan {
        var plan = self
        plan.serverProcess = serverProcess
        switch extent {
        case .messages(let count):
            plan.operationLimit = count
            // Longer than any number of messages takes: the number ends the run.
            plan.duration = 86_400_000_000_000
        case .time(let warmUp, let measured):
            (plan.warmUp, plan.duration) = (Int(warmUp * 1e9), Int(measured * 1e9))
        }
        return plan
    }
}
