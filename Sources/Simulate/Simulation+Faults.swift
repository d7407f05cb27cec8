import PandoEngine
import PandoRules
import PandoServer

/// What a scheduler must not do, done to it by what stands between clients and server: so that it can be seen
/// that the checker notices.
enum Fault: CaseIterable {
    /// Two requests of one session trade places.
    case swapsRequests
    /// One session is not served while another has anything waiting.
    case starves
    /// A write of a flood is not done, and not answered.
    case losesWrite
    /// A session that has hung up is served on.
    case servesTheGone
}

/// What was kept back for a ``Fault``.
struct Delayed {
    fileprivate var swapped: (session: UInt64, message: [UInt8])?
    fileprivate var victim: UInt64?
    fileprivate var messages: [(session: UInt64, message: [UInt8]?, credential: Credential)] = []
}

extension Simulation {
    /// A flood: enough waits for a fault to show.
    private static let floodCount = 300

    /// Gives a client's request to the server.
    func handOn(_ message: [UInt8], _ action: Action, in session: UInt64, as credential: Credential) throws {
        guard let fault, let server else { return try say(message, in: session, as: credential) }
        let waitingCount = checker.waiting.count(of: session)
        switch fault {
        case .swapsRequests:
            guard let held = delayed.swapped else {
                guard waitingCount > Self.floodCount else {
                    return try say(message, in: session, as: credential)
                }
                return delayed.swapped = (session, message)
            }
            guard held.session == session else { return try say(message, in: session, as: credential) }
            try say(message, in: session, as: credential)
            try say(held.message, in: session, as: credential)
            // Once is enough.
            delayed.swapped = (0, [])
        case .starves:
            if delayed.victim == nil, server.hasBacklog, !flooders.contains(session), waitingCount < 4 {
                delayed.victim = session
            }
            guard delayed.victim == session, server.hasBacklog || !delayed.messages.isEmpty else {
                return try say(message, in: session, as: credential)
            }
            delayed.messages.append((session, message, credential))
        case .losesWrite:
            if !action.isRead, waitingCount > Self.floodCount, random.chance(1) {
                return note("lost: \(action)")
            }
            try say(message, in: session, as: credential)
        case .servesTheGone: try say(message, in: session, as: credential)
        }
    }

    /// Tells the server that a connection is gone.
    func handOnEnd(of session: UInt64) {
        if fault == .servesTheGone { return delayed.messages.append((session, nil, .anonymous)) }
        if delayed.victim == session { playOutAll() }
        server?.close(SessionID(session))
    }

    /// Gives the server what was kept back until it had nothing else to do.
    func playOut() {
        if server?.hasBacklog == false { playOutAll() }
    }

    private func playOutAll() {
        guard !delayed.messages.isEmpty, let server else { return }
        for (session, message, credential) in delayed.messages {
            if let message {
                do { try say(message, in: session, as: credential) } catch { preconditionFailure("\(error)") }
            } else {
                server.close(SessionID(session))
            }
        }
        delayed.messages = []
        delayed.victim = nil
    }

    private func say(_ message: [UInt8], in session: UInt64, as credential: Credential) throws {
        try server?.say(message, in: SessionID(session), as: credential)
    }
}
