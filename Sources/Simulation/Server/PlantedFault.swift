import PandoBytes
import PandoDatabase
import PandoEngine
import PandoRandom

/// What a server must not do. The simulated loop does it, so that the shipped modules need no switch for it:
/// the tests show with each that the checker notices.
enum PlantedFault: CaseIterable {
    // Between connections and databases:
    /// Two requests of one session change places.
    case swapsRequests
    /// One session is not served while another has anything waiting.
    case starves
    /// A write of a flood is not done, and not answered.
    case losesWrite
    /// A session that has hung up is served on.
    case servesEndedSession

    // Between databases and clients:
    /// A push is sent after the reply that it precedes.
    case sendsPushAfterReply
    /// Outputs are sent before the journal entries that they depend on are durable.
    case sendsBeforeDurable
    /// A connection that was paused is never resumed.
    case forgetsResume
    /// What came together with the end of TLS (close_notify) is dropped.
    case losesDataBeforeClose
}

/// Commits a ``PlantedFault`` in one life of a server.
final class FaultInjector {
    let fault: PlantedFault
    private var random: SeededGenerator
    private var hasSwapped = false
    /// The session that is starved.
    private var victim: SessionID?
    /// Messages that are kept back until the databases have nothing else to do.
    private var delayed: [DatabaseMessage] = []
    /// The connection that is never resumed.
    private var forgottenLink: Int?

    /// Requests of one session, handed over together, from which on they are a flood.
    private static let floodCount = 20

    init(_ fault: PlantedFault, _ random: SeededGenerator) {
        self.fault = fault
        self.random = random
    }

    // MARK: To the databases

    /// Changes what the connections hand to the databases.
    /// - Parameter isBusy: Whether the databases have more to do.
    func change(_ messages: inout [DatabaseMessage], isBusy: Bool) {
        switch fault {
        case .swapsRequests: swapRequests(&messages)
        case .losesWrite:
            guard messages.count > Self.floodCount else { return }
            messages.removeAll { message in
                guard case .request(let request) = message, request.action.isWrite else { return false }
                return Int.random(in: 0..<100, using: &random) == 0
            }
        case .starves:
            if victim == nil, isBusy { victim = newVictim(messages) }
            guard let victim, isBusy || !delayed.isEmpty else { return }
            keepBack(&messages) { $0.requestingSession == victim }
        case .servesEndedSession:
            keepBack(&messages) { if case .closed = $0 { true } else { false } }
        case .sendsPushAfterReply, .sendsBeforeDurable, .forgetsResume, .losesDataBeforeClose: break
        }
    }

    var hasDelayed: Bool { !delayed.isEmpty }

    /// What was kept back, once the databases have nothing else to do.
    func takeDelayed(isBusy: Bool) -> [DatabaseMessage] {
        guard !isBusy else { return [] }
        victim = nil
        defer { delayed = [] }
        return delayed
    }

    private func swapRequests(_ messages: inout [DatabaseMessage]) {
        guard !hasSwapped, messages.count > Self.floodCount else { return }
        for index in messages.indices.dropLast() {
            guard case .request(let first) = messages[index], case .request(let second) = messages[index + 1],
                first.session == second.session
            else { continue }
            messages.swapAt(index, index + 1)
            // Once is enough.
            return hasSwapped = true
        }
    }

    /// A session that has not flooded.
    private func newVictim(_ messages: [DatabaseMessage]) -> SessionID? {
        var counts: [SessionID: Int] = [:]
        for message in messages {
            if let session = message.requestingSession { counts[session, default: 0] += 1 }
        }
        return counts.filter { $0.value < 4 }.keys.min { $0.rawValue < $1.rawValue }
    }

    private func keepBack(_ messages: inout [DatabaseMessage], where isMeant: (DatabaseMessage) -> Bool) {
        delayed += messages.filter(isMeant)
        messages.removeAll(where: isMeant)
    }

    // MARK: From the databases

    /// Changes the order of a batch of outputs.
    func reordered(_ outputs: [LoopOutput]) -> [LoopOutput] {
        guard fault == .sendsPushAfterReply else { return outputs }
        var outputs = outputs
        for index in outputs.indices {
            guard case .message(let session, let push) = outputs[index], push.isPush,
                let reply = outputs[(index + 1)...].firstIndex(where: { output in
                    guard case .message(session, let message) = output else { return false }
                    return !message.isPush
                })
            else { continue }
            outputs.insert(outputs.remove(at: reply), at: index)
            return outputs
        }
        return outputs
    }

    /// Whether outputs are sent now that must wait.
    func sendsEarly() -> Bool { fault == .sendsBeforeDurable && Bool.random(using: &random) }

    /// Whether the end of a pause is forgotten.
    func forgetsResume(of link: Int) -> Bool {
        guard fault == .forgetsResume else { return false }
        if forgottenLink == nil, Int.random(in: 0..<4, using: &random) == 0 { forgottenLink = link }
        return forgottenLink == link
    }
}

extension DatabaseMessage {
    /// The session of a request, or of its end.
    fileprivate var requestingSession: SessionID? {
        switch self {
        case .request(let request): request.session
        case .closed(let session), .windowMark(let session), .reply(let session, _, _),
            .credentialChanged(let session, _, _):
            session
        default: nil
        }
    }
}

extension [UInt8] {
    /// Whether a message of the server is a push: `{"t":"d","d":{"a":…`.
    fileprivate var isPush: Bool { starts(with: "{\"t\":\"d\",\"d\":{\"a\"".utf8) }
}
