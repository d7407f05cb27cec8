import PandoEngine
import PandoIdentity
import PandoREST

@testable import PandoConnections
@testable import PandoDatabase

/// The events that the connections of both protocols have.
protocol ConnectionMachine: SendableMetatype {
    mutating func received(_ bytes: inout MutableRawSpan, _ context: inout ConnectionContext)
    mutating func drained(_ context: inout ConnectionContext)
    mutating func verified(_ result: VerificationResult, _ context: inout ConnectionContext)
    mutating func expired(_ context: inout ConnectionContext)
    mutating func recheck(_ revocations: RevocationState, _ context: inout ConnectionContext)
    mutating func peerEnded(_ context: inout ConnectionContext)
    mutating func giveUpMemory(_ context: inout ConnectionContext)
    mutating func tick(_ context: inout ConnectionContext)
}

extension HTTPConnection: ConnectionMachine {}

extension WebSocketConnection: ConnectionMachine {
    mutating func received(_ bytes: inout MutableRawSpan, _ context: inout ConnectionContext) {
        received(&bytes, from: 0, &context)
    }
}

/// A connection on a scripted socket, whose client reads at once unless a step says otherwise.
protocol ConnectionDriver: SendableMetatype {
    associatedtype Machine: ConnectionMachine

    var base: SocketDriver<Machine> { get set }

    /// What holds between any two events.
    func check()
}

extension ConnectionDriver {
    var machine: Machine { base.machine }

    mutating func event(_ body: (inout Machine, inout ConnectionContext) -> Void) -> [String] {
        let lines = base.event(body)
        return lines + takeAll()
    }

    mutating func receive(_ bytes: [UInt8]) -> [String] {
        let lines = base.input(bytes) { $0.received(&$1, &$2) }
        return lines + takeAll()
    }

    /// A client that reads at once takes what an event has written.
    private mutating func takeAll() -> [String] {
        check()
        var lines: [String] = []
        while base.socket.takesAll, base.socket.take(.max) {
            lines += base.event(isCaused: true) { $0.drained(&$1) }
        }
        return lines
    }

    /// The client takes bytes, all of them by default.
    mutating func take(_ byteCount: Int = .max) -> [String] {
        guard base.socket.take(byteCount) else { return [] }
        return event { $0.drained(&$1) }
    }

    mutating func tick() -> [String] { event { $0.tick(&$1) } }
}

extension Step where Driver: ConnectionDriver {
    static func accepted(_ identity: Identity, _ expected: String...) -> Self {
        Step("token accepted", expected) { driver in driver.event { $0.verified(.accepted(identity), &$1) } }
    }

    static func refused(_ error: TokenError, _ expected: String...) -> Self {
        Step("token refused", expected) { driver in driver.event { $0.verified(.refused(error), &$1) } }
    }

    static func expired(_ expected: String...) -> Self {
        Step("credential expires", expected) { driver in driver.event { $0.expired(&$1) } }
    }

    static func recheck(_ revocations: RevocationState, _ expected: String...) -> Self {
        Step("revocations change", expected) { driver in driver.event { $0.recheck(revocations, &$1) } }
    }

    static func peerEnded(_ expected: String...) -> Self {
        Step("client closes its side", expected) { driver in driver.event { $0.peerEnded(&$1) } }
    }

    static func giveUpMemory(_ expected: String...) -> Self {
        Step("memory is short", expected) { driver in driver.event { $0.giveUpMemory(&$1) } }
    }

    /// So many seconds pass, then comes a tick.
    static func tick(after seconds: Double, _ expected: String...) -> Self {
        Step("tick after \(seconds) s", expected) { driver in
            driver.base.wait(seconds)
            return driver.tick()
        }
    }

    /// The client takes nothing of what it is sent from now on.
    static var clientStopsReading: Self {
        Step("client stops reading", []) { driver in
            driver.base.socket.takesAll = false
            return []
        }
    }

    static func clientTakes(_ byteCount: Int = .max, _ expected: String...) -> Self {
        Step("client takes \(byteCount == .max ? "all" : "\(byteCount)") bytes", expected) {
            $0.take(byteCount)
        }
    }

    /// A condition that holds here.
    static func holds(_ what: String, _ condition: @escaping @Sendable (Driver) -> Bool) -> Self {
        Step(what, [what]) { driver in condition(driver) ? [what] : ["not: " + what] }
    }
}
