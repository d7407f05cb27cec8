import PandoRandom

/// Reads everything that is there after a start, as a client does.
final class StartReader {
    /// Rounds in which a server that was just started answers four reads.
    private static let roundLimit = 20

    private let world: SimulatedWorld
    private let driver: ClientDriver
    private let idle: IdleWait
    private var seen = ReferenceState()
    private var time: Int64?
    /// Links of clients that read the rules; the others read the data.
    private var rulesReaders: Set<Int> = []
    private var missingCount = 0
    /// Clients that ask again when time has passed.
    private var refused: [SimulatedClient] = []

    init(_ world: SimulatedWorld, _ driver: ClientDriver, _ idle: IdleWait) {
        self.world = world
        self.driver = driver
        self.idle = idle
    }

    /// - Returns: What is there, and the time that the server says.
    /// - Throws: ``BrokenPromise``.
    func read() throws -> (ReferenceState, Int64) {
        world.onDecoded = { [self] client, decoded in try take(decoded, by: client) }
        defer { world.onDecoded = nil }
        askAll()
        for _ in 0..<Self.roundLimit where missingCount > 0 || time == nil {
            while try idle.settleOnce() {}
            // The moment of the start is known: now the disk may be asked for space again.
            if time != nil { world.environment.advance(by: 1100) }
            for client in exchange(&refused, with: []) { ask(client) }
        }
        guard let time, missingCount == 0 else {
            throw BrokenPromise(
                description: "no answer after the start: \(String(describing: world.server?.failure))")
        }
        for client in world.clients { client.leave(.reset, &world.random) }
        while try idle.settleOnce() {}
        world.note(
            "started at \(time): \(seen.namespaces.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value.rules) \($0.value.root.json)" })"
        )
        return (seen, time)
    }

    private func askAll() {
        _ = driver.makeClient(.anonymous, in: SimulatedWorld.namespaces[0], isRealtime: true)
        for name in SimulatedWorld.namespaces {
            ask(driver.makeClient(.admin, in: name, isRealtime: false))
            let reader = driver.makeClient(.admin, in: name, isRealtime: false)
            rulesReaders.insert(reader.link.number)
            ask(reader)
            missingCount += 2
        }
    }

    private func ask(_ client: SimulatedClient) {
        if rulesReaders.contains(client.link.number) {
            client.requestRules()
        } else {
            client.send(.restGet([], nil), &world.random)
        }
    }

    private func take(_ decoded: SimulatedClient.Decoded, by client: SimulatedClient) throws {
        switch decoded {
        case .message(let bytes):
            time = try Value(json: bytes)["d"]["d"]["ts"].number.map { Int64($0) } ?? time
        case .response(let response) where response.status == 503:
            // The disk was asked for space too early.
            refused.append(client)
        case .response(let response) where rulesReaders.contains(client.link.number):
            let rules = RulesDocument.allCases.first { Array($0.source.utf8) == response.body }
            guard let rules else { throw BrokenPromise(description: "unknown rules: \(decoded.text)") }
            seen.namespaces[client.namespace, default: .init()].rules = rules
            missingCount -= 1
        case .response(let response):
            seen.namespaces[client.namespace, default: .init()].root = try Value(json: response.body).pruned
            missingCount -= 1
        case .event: break
        }
    }
}
